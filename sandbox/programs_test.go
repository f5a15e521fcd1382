package sandbox_test

import (
	"strings"
	"testing"

	"gurtos/sandbox/sandboxtest"
)

// Programs that agents use work inside.
func TestPrograms(t *testing.T) {
	h := sandboxtest.Open(t)
	const git = "git -c user.name=a -c user.email=a@b -c init.defaultBranch=main "
	for _, c := range []struct{ name, command, want string }{
		{"git", "git init -q r && cd r && echo a > a && mkdir d && echo b > d/b && " + git + "add . && " + git + "commit -qm one && " + git + "mv d e && " + git + "commit -qm two && git worktree add -q ../w && git clone -q . ../c && git gc -q && git fsck --strict && git -C ../w log --oneline | wc -l", "2"},
		{"8 tasks of git gc", "git init -q r && cd r && for i in 1 2 3 4 5 6 7 8; do echo $i > $i; git add .; " + git + "commit -qm $i; done; for i in 1 2 3 4 5 6 7 8; do git gc -q & done; wait; git fsck 2>&1 | grep -v dangling; git log --oneline | wc -l", "8"},
		{"gcc", "printf '#include <stdio.h>\\nint main(void){puts(\"hi\");}' > a.c && gcc -O2 -o a a.c && ./a", "hi"},
		{"make -j", "printf 'all: 1 2 3 4\\n%%: ; @sleep 0.01; echo $@ > $@\\n' > Makefile && make -sj4 && cat 1 2 3 4 | tr -d '\\n'", "1234"},
		{"python multiprocessing", `python3 -c 'import multiprocessing as m
if __name__ == "__main__":
  with m.Pool(4) as p: print(sum(p.map(abs, range(100))))
  q = m.Queue(); q.put(1); print(q.get())' | tr '\n' ' '`, "4950 1 "},
		{"python shared memory", `python3 -c 'from multiprocessing import shared_memory as s
m = s.SharedMemory(create=True, size=100); m.buf[0] = 7; n = s.SharedMemory(m.name); print(n.buf[0]); n.close(); m.close(); m.unlink()'`, "7"},
		{"sqlite with a write-ahead log", `python3 -c 'import sqlite3
a, b = sqlite3.connect("d"), sqlite3.connect("d")
print(a.execute("pragma journal_mode=wal").fetchone()[0]); a.execute("create table t(x)"); a.execute("insert into t values(1)"); a.commit()
print(b.execute("select count(*) from t").fetchone()[0])' | tr '\n' ' '`, "wal 1 "},
		{"node", `node -e 'const {Worker, isMainThread} = require("worker_threads"); new Worker("require(\"worker_threads\").parentPort.postMessage(6*7)", {eval: true}).on("message", m => console.log(m))'`, "42"},
		{"node child process and http", `node -e 'const h = require("http"), c = require("child_process"); const s = h.createServer((q, r) => r.end("ok")).listen(0, () => c.exec("curl -s http://127.0.0.1:" + s.address().port, (e, o) => { console.log(e || o); s.close() }))'`, "ok"},
		{"node watches files", `node -e 'const f = require("fs"); const w = f.watch(".", (e, n) => { console.log(n); w.close() }); f.writeFileSync("seen", "")'`, "seen"},
		{"terminal", `python3 -c 'import pty,os
pid, fd = pty.fork()
if pid == 0: os.execvp("tty", ["tty"])
print(os.read(fd, 100).decode().strip())'`, "/dev/pts/0"},
		{"script", "script -qec 'stty size; tty' /dev/null </dev/null | tail -1 | tr -d '\\r'", "/dev/pts/0"},
		{"inotify, set before a file of the layer below is changed", `python3 -c 'import ctypes,os
l = ctypes.CDLL(None); open("a","w").write("x"); fd = l.inotify_init(); l.inotify_add_watch(fd, b"a", 2); open("a","a").write("y"); print(len(os.read(fd, 100)))'`, "16"},
		{"shell jobs", "bash -c 'set -m; sleep 100 & kill %1; wait %1; echo $?' 2>/dev/null", "143"},
		{"mmap of a file", `python3 -c 'import mmap
f = open("m","wb+"); f.write(b"a"*4096); f.flush(); m = mmap.mmap(f.fileno(), 0); m[0:1] = b"z"; m.flush(); print(open("m").read(1))'`, "z"},
		{"locks", "flock l -c 'flock -n l -c true || echo locked'", "locked"},
		{"links, times and attributes", "echo a > a; ln a b; touch -d 2001-02-03 a; chmod 750 a; stat -c '%h %a %y' b | cut -c1-16", "2 750 2001-02-03"},
		{"ssh keys and agent", "ssh-keygen -q -t ed25519 -N '' -f k && eval $(ssh-agent) >/dev/null && ssh-add -q k && ssh-add -l | wc -l; ssh-agent -k >/dev/null", "1"},
		{"a socket between processes", `python3 -c 'import socket,os
l = socket.socket(socket.AF_UNIX); l.bind("s"); l.listen()
if os.fork() == 0: socket.socket(socket.AF_UNIX).connect("s"); os._exit(0)
l.accept(); print("met")'`, "met"},
		{"a pipe with a name", "mkfifo p && (echo through > p &) && cat p", "through"},
		{"renaming folders of the layer below", "mkdir -p a/b && touch a/b/c && mv a d && ls d/b", "c"},
		{"ripgrep", "echo needle > hay; rg -l needle", "hay"},
		{"asynchronous I/O and timers", `python3 -c 'import asyncio
async def f(): await asyncio.sleep(0.01); p = await asyncio.create_subprocess_exec("echo", "sub"); await p.wait()
asyncio.run(f())'`, "sub"},
		{"a program of another user fails plainly", "chown root a 2>&1 || echo no; touch a; chown 0 a 2>/dev/null || echo no", "no"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := sandboxtest.Spec(t, "/bin/sh", "-c", c.command)
			s.Limits.Pids = 300
			e := sandboxtest.Start(t, h, s).Wait()
			lines := strings.Split(strings.TrimSuffix(e.Output, "\n"), "\n")
			if got := lines[len(lines)-1]; e.Code != 0 || got != c.want {
				t.Errorf("last line %q, want %q; %+v", got, c.want, e)
			}
		})
	}
}
