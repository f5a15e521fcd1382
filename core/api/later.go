package api

import "net/http"

// Update is the system's slots.
type Update struct {
	Slots    []string `json:"slots" doc:"The system slots and their versions."`
	Fallback string   `json:"fallback,omitempty" doc:"Why the box went back to the other slot last."`
}

func (s *Server) notYet(c *call) error {
	return &Error{Status: http.StatusNotImplemented, Sentence: "this build does not bring " + c.route.Later + " yet"}
}
