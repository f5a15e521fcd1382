// Command idle is the floor of a boot: an init that says that it runs, and does
// nothing.
package main

import "fmt"

func main() {
	fmt.Println("idle init")
	select {}
}
