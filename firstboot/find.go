package firstboot

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"gurtos/boot/disk"
	"gurtos/image/layout"
)

// A Data is the box's data disk, or the disk that may become it.
type Data struct {
	Disk  disk.Disk
	Part  disk.Part // its partition, empty until there is a table
	Blank bool      // nothing on it yet

	claim claim // empty on a partition that an installer made
}

// Fresh says whether the raw steps have still to be gone through.
func (d Data) Fresh() bool { return d.Blank || d.claim.State == claimed }

// A NoDisk says why the box has no data disk, in sentences for a person.
type NoDisk struct{ Reasons []string }

func (e *NoDisk) Error() string { return strings.Join(e.Reasons, " ") }

// Find looks at all disks and picks the data disk. It reads only.
//
// One disk that is ours is taken, whatever else is there. Of blank ones there
// must be exactly one that is fit, and none of ours. Else the error is a *NoDisk.
func Find(disks []disk.Disk) (Data, error) {
	var ours, blank []Data
	var reasons []string
	for _, d := range disks {
		c := look(d)
		switch {
		case c.ours != nil:
			ours = append(ours, *c.ours)
		case c.system:
		case c.why == "":
			blank = append(blank, Data{Disk: d, Blank: true})
		default:
			reasons = append(reasons, c.why)
		}
	}
	switch {
	case len(ours) == 1:
		return ours[0], nil
	case len(ours) > 1:
		return Data{}, &NoDisk{[]string{fmt.Sprintf("There are %d data disks of GurtOS, %s, and no telling which is this box's: take all but one away.", len(ours), list(ours))}}
	case len(blank) == 1:
		return blank[0], nil
	case len(blank) > 1:
		return Data{}, &NoDisk{[]string{fmt.Sprintf("There are %d blank disks, %s, and no telling which to use: leave only one attached.", len(blank), list(blank))}}
	}
	return Data{}, &NoDisk{append([]string{fmt.Sprintf("There is no data disk: attach a blank disk of at least %s.", disk.Bytes(layout.MinData))}, reasons...)}
}

func list(ds []Data) string {
	names := make([]string, len(ds))
	for i, d := range ds {
		names[i] = d.Disk.String()
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}

// A class is what look found: ours, or not fit for the reason why, or blank
// and fit when both are empty.
type class struct {
	ours   *Data
	why    string
	system bool // a disk of GurtOS itself, no candidate and no news
}

func look(d disk.Disk) class {
	f, err := os.Open(d.Path)
	if err != nil {
		return class{why: fmt.Sprintf("%s can't be opened: %v.", d, err)}
	}
	defer f.Close()

	c, claimErr := readClaim(f, d)
	if claimErr != nil && !errors.Is(claimErr, errNoClaim) {
		return class{why: fmt.Sprintf("%s can't be read: %v.", d, claimErr)}
	}
	parts, _, tableErr := d.Parts()
	if claimErr == nil {
		data := &Data{Disk: d, Part: ofType(parts, c.Part), claim: c}
		still, err := c.holds(f, data, tableErr == nil)
		if err != nil {
			return class{why: fmt.Sprintf("%s can't be read: %v.", d, err)}
		}
		if still {
			return class{ours: data}
		}
	} else if p := ofType(parts, ""); p.Index != 0 {
		return class{ours: &Data{Disk: d, Part: p}}
	}
	holds, err := what(f, d.Size)
	switch {
	case err != nil:
		return class{why: fmt.Sprintf("%s can't be read: %v.", d, err)}
	case holds != "":
		if strings.Contains(holds, "GUID partition table") {
			holds = tableOf(d, holds)
		}
		if holds == "a GurtOS system" {
			return class{system: true}
		}
		return class{why: fmt.Sprintf("%s holds %s and was left untouched: only a blank disk is ever taken.", d, holds)}
	case d.Removable:
		return class{why: fmt.Sprintf("%s is blank, but a removable disk.", d)}
	case d.ReadOnly:
		return class{why: fmt.Sprintf("%s is blank, but can't be written to.", d)}
	case d.Size < layout.MinData:
		return class{why: fmt.Sprintf("%s is blank, but smaller than %s.", d, disk.Bytes(layout.MinData))}
	}
	return class{}
}

// ofType is the data partition among parts, by its GUID when one is given.
func ofType(parts []disk.Part, guid string) disk.Part {
	for _, p := range parts {
		if p.Type == layout.TypeData && (guid == "" || strings.EqualFold(p.GUID, guid)) {
			return p
		}
	}
	return disk.Part{}
}
