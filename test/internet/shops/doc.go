// Package shops are servers of the internet that tests make, for the clients that agents use: registries of npm, pip and Go, git by HTTP and ssh,
// WebSocket, gRPC, a database. They speak the real protocols, and what they have is made when it is asked for.
package shops
