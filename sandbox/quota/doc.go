// Package quota caps the disk space that a sandbox's folders take together. On
// XFS with project quotas the kernel holds the cap to the byte: all folders of
// one sandbox belong to one project, whose id no file had before. On other file
// systems the folders are measured, and the sentence that Weaker gives says so.
// It never deletes anything and never decides what happens to who passes a cap.
package quota
