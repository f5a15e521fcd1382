package layout

// Partition types. TypeESP is the UEFI specification's, the others are ours alone, so that no other system mounts, repairs or claims them.
const (
	TypeESP    = "c12a7328-f81f-11d2-ba4b-00a0c93ec93b"
	TypeSystem = "1806d490-047e-40b5-b6ec-82551bd36cdf"
	TypeTasks  = "0226a94b-b595-4f37-8cc2-7e33a3ec0ded"
	TypeData   = "70e7b32a-c635-4f76-b99b-086c6a741173"
)

// Partition names, as people see them in lsblk. Nothing is found by a name.
const (
	NameESP     = "gurtos-esp"
	NameSystemA = "gurtos-system-a"
	NameTasksA  = "gurtos-tasks-a"
	NameSystemB = "gurtos-system-b"
	NameTasksB  = "gurtos-tasks-b"
	NameData    = "gurtos-data"
)

// File system labels. XFS takes 12 bytes, FAT 11.
const (
	LabelESP  = "GURTOS"
	LabelData = "gurtos-data"
)

// Sizes in bytes. A slot is as large as an update may grow to; a file system that no longer fits fails the build.
const (
	Align      = 1 << 20 // every partition starts at a multiple of it
	SizeESP    = 256 << 20
	SizeSystem = 512 << 20
	SizeTasks  = 1 << 30
	MinData    = 2 << 30 // a smaller data disk is refused
)

// The kernel command line's own words, each as word=value.
const (
	CmdSystem  = "gurtos.system"  // UUID of the system file system, also its partition's unique GUID
	CmdTasks   = "gurtos.tasks"   // the same of the tasks file system
	CmdVersion = "gurtos.version" // version of the build, as people see it
	CmdEpoch   = "gurtos.epoch"   // seconds since 1970 when the source was committed: the clock is never earlier
	CmdDebug   = "gurtos.debug"   // present, without a value, in a debug build: a shell on the console
)

// Paths in the running system.
const (
	Bin       = "/usr/lib/gurtos/bin"            // boxd, box, init, worker, box-init
	Apps      = "/usr/lib/gurtos"                // tracks/ and core/ with the SDK
	Release   = "/usr/lib/gurtos/release.json"   // version, commit and time of the build; in the initramfs too
	TasksRoot = "/usr/lib/gurtos/tasks"          // where the tasks file system is mounted
	ESPLoader = "EFI/BOOT/BOOTX64.EFI"           // in the ESP; firmware starts it without any boot entry
	Modules   = "/lib/modules"                   // <release>/: kernel/…/*.ko, modules.dep, modules.alias, modules.softdep, modules.builtin
	SBOM      = "/usr/lib/gurtos/packages.jsonl" // what Debian and npm packages the system was made of
)
