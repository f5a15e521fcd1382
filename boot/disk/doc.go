// Package disk lists the machine's disks and reads their partition tables.
//
// It opens disks for reading only. Disks are named to people by what is printed on them: kernel name, size, model, serial number.
package disk
