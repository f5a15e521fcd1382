package programs

// programs are what agents run; each in a workspace of its own, with the internet of these tests.
var programs = []program{
	{name: "git", script: `
git config --global user.name a; git config --global user.email a@box.test
git clone -q http://git.example.com/garden.git && cd garden
git worktree add -q ../other -b other && (cd ../other && git mv d1 moved && git commit -qm moved && git push -q origin other)
git mv d2 d2moved && git commit -qm two && git rebase -q other && git stash list && git gc -q --prune=now
git clone -q . ../copy && git -C ../copy fsck --strict && git fetch -q && git diff --stat origin/other origin/main | tail -1
git worktree remove ../other && git branch -q -D other && git status --short && git log --oneline | wc -l`, want: "42"},

	{name: "npm", files: []string{"package.json", `{"name":"shop","version":"1.0.0","dependencies":{"left-0":"^1.0.0"}}`}, script: `
npm config set registry http://npm.example.com/
npm install --loglevel=error
npm ls --all --parseable | wc -l
npm exec left-299; cat node_modules/left-0/made
rm -r node_modules && npm ci --loglevel=error
node -p "require('left-0')"`, want: "300"},

	{name: "venv and pip", script: `
python3 -m venv v && . v/bin/activate
pip install -q --disable-pip-version-check --index-url http://pypi.example.com/simple/ --trusted-host pypi.example.com left
pip install -q --disable-pip-version-check --index-url http://pypi.example.com/simple/ --trusted-host pypi.example.com --user left 2>&1 | tail -1
pip check && left`, want: "left and right"},

	{name: "programs of the user", script: `
pip install -q --disable-pip-version-check --index-url http://pypi.example.com/simple/ --trusted-host pypi.example.com left
npm install -g --loglevel=error --registry http://npm.example.com/ left-299 >/dev/null
echo "$(left), npm's $(left-299)"`, want: "left and right, npm's ran"},

	{name: "go", files: []string{
		"go.mod", "module x\n\ngo 1.24\n\nrequire (\n\texample.com/m0 v1.0.0\n\texample.com/m1 v1.0.0 // indirect\n\texample.com/m2 v1.0.0 // indirect\n)\n",
		"main.go", "package main\n\nimport (\n\t\"fmt\"\n\n\t\"example.com/m0\"\n)\n\nfunc main() { fmt.Println(\"counted\", m0.Count()) }\n",
		"main_test.go", "package main\n\nimport (\n\t\"os\"\n\t\"os/exec\"\n\t\"sync\"\n\t\"testing\"\n\n\t\"example.com/m0\"\n)\n\n" +
			"func TestAll(t *testing.T) {\n\tvar all sync.WaitGroup\n\tfor i := 0; i < 20; i++ {\n\t\tall.Add(1)\n\t\tgo func() {\n\t\t\tdefer all.Done()\n" +
			"\t\t\tif err := exec.Command(\"true\").Run(); err != nil || m0.Count() != 3 {\n\t\t\t\tt.Error(err)\n\t\t\t}\n\t\t}()\n\t}\n\tall.Wait()\n" +
			"\tif err := os.WriteFile(t.TempDir()+\"/x\", nil, 0o600); err != nil {\n\t\tt.Error(err)\n\t}\n}\n",
	}, script: `
export GOPROXY=http://go.example.com GOSUMDB=off GOTOOLCHAIN=local GOFLAGS=-mod=mod
go mod tidy && go vet . && go test -count=1 . && go build -o x . && ./x`, want: "counted 3"},

	{name: "go with the race detector", long: true, files: []string{
		"go.mod", "module x\n\ngo 1.24\n", "x_test.go", "package x\n\nimport \"testing\"\n\nfunc TestRace(t *testing.T) {\n\tn := 0\n\tdone := make(chan bool)\n\tgo func() { n++; done <- true }()\n\tn++\n\t<-done\n}\n",
	}, script: `CGO_ENABLED=1 GOTOOLCHAIN=local go test -race -count=1 . 2>&1 | grep -c 'DATA RACE'`, want: "1"},

	{name: "gcc and make", files: []string{
		"Makefile", "objects := $(foreach n,1 2 3 4 5 6 7 8 9 10 11 12,f$(n).o)\nall: main\n\t./main\nf%.o: f.c\n\t$(CC) -O1 -DNAME=f$* -c -o $@ $<\nmain: main.c $(objects)\n\t$(CC) -o $@ $^\n",
		"f.c", "#include <stdio.h>\nint NAME(void) { char b[99]; snprintf(b, sizeof b, \"%d\", 1); return b[0] - '0'; }\n",
		"main.c", "#include <stdio.h>\n#define F(n) int f##n(void);\nF(1)F(2)F(3)F(4)F(5)F(6)F(7)F(8)F(9)F(10)F(11)F(12)\nint main(void) { return printf(\"%d\\n\", f1()+f2()+f3()+f4()+f5()+f6()+f7()+f8()+f9()+f10()+f11()+f12()) < 0; }\n",
		"x.cc", "#include <iostream>\n#include <thread>\n#include <vector>\nint main() { std::vector<std::thread> t; int n[8]{}; for (int i = 0; i < 8; i++) t.emplace_back([&n, i] { n[i] = i; }); for (auto &x : t) x.join(); std::cout << n[7] << \"\\n\"; }\n",
	}, script: `
g++ -O1 -pthread -o x x.cc && ./x
make -j8 | tail -1`, want: "12"},

	{name: "sanitizers", long: true, files: []string{
		"race.c", "#include <pthread.h>\nint n;\nstatic void *f(void *p) { n++; return p; }\nint main(void) { pthread_t t; pthread_create(&t, 0, f, 0); n++; pthread_join(t, 0); return 0; }\n",
		"over.c", "#include <stdlib.h>\nint main(void) { char *p = malloc(8); volatile int i = 8; p[i] = 1; free(p); return 0; }\n",
		"well.c", "#include <stdio.h>\nint main(void) { puts(\"well\"); return 0; }\n",
	}, script: `
gcc -g -fsanitize=thread -o race race.c && (./race 2>&1 || true) | grep -c 'WARNING: ThreadSanitizer: data race'
gcc -g -fsanitize=address,undefined -o over over.c && (./over 2>&1 || true) | grep -c 'ERROR: AddressSanitizer: heap-buffer-overflow'
gcc -g -fsanitize=address -o well well.c && ./well`, want: "well"},

	{name: "python multiprocessing", files: []string{"m.py", `
import multiprocessing as m, concurrent.futures as f
def work(n): return n * n
if __name__ == "__main__":
    for way in "fork", "spawn", "forkserver":
        with m.get_context(way).Pool(4) as p:
            assert sum(p.map(work, range(100))) == 328350, way
    with f.ProcessPoolExecutor(4) as p: assert sum(p.map(work, range(100))) == 328350
    with m.Manager() as shared:
        d = shared.dict()
        all = [m.Process(target=d.__setitem__, args=(i, i)) for i in range(8)]
        [p.start() for p in all]; [p.join() for p in all]
        lock, value = m.Lock(), m.Value("i", 0)
        assert len(d) == 8
    q = m.SimpleQueue(); q.put("queued"); print(q.get())
`}, script: `python3 m.py`, want: "queued"},

	{name: "sqlite", script: `
sqlite3 d 'pragma journal_mode=wal; create table t(x);'
for i in 1 2 3 4; do (for k in 1 2 3 4 5; do sqlite3 -cmd '.timeout 60000' d "insert into t values($i);"; done) & done; wait
ls d-wal d-shm >/dev/null 2>&1 || true
sqlite3 d 'pragma integrity_check; select count(*) from t;'`, want: "20"},

	{name: "node", files: []string{"w.js", `
const { Worker, isMainThread, parentPort, workerData } = require("worker_threads");
const fs = require("fs"), http = require("http"), cp = require("child_process");
if (process.send) process.send(6 * 7);
else if (!isMainThread) { const a = new Int32Array(workerData); for (let i = 0; i < 1000; i++) Atomics.add(a, 0, 1); parentPort.postMessage("done"); }
else {
  const shared = new SharedArrayBuffer(4);
  const once = (emitter, name) => new Promise(r => emitter.once(name, r));
  const workers = Promise.all(Array.from({ length: 8 }, () => once(new Worker(__filename, { workerData: shared }), "message")));
  const seen = new Promise(r => { const w = fs.watch(".", (e, n) => { if (n == "seen") { w.close(); r(n); } }); fs.writeFileSync("seen", ""); });
  const server = http.createServer((q, r) => r.end("ok")).listen(0, async () => {
    await workers;
    const body = await (await fetch("http://127.0.0.1:" + server.address().port)).text();
    const child = await once(cp.fork(__filename), "message");
    console.log(new Int32Array(shared)[0], body, child, await seen, new WebAssembly.Memory({ initial: 1 }).buffer.byteLength);
    process.exit();
  });
}
`}, script: `node w.js`, want: "8000 ok 42 seen 65536"},

	{name: "chromium", files: []string{"page.html", `<!doctype html><title>t</title><body><script>
let w = new Worker(URL.createObjectURL(new Blob(["postMessage(6*7)"])));
w.onmessage = e => { document.body.innerHTML = "<p>worker says " + e.data + "</p>"; };
</script>`}, script: `
b="chromium-headless-shell --no-sandbox --disable-gpu --virtual-time-budget=5000"
$b --screenshot=$PWD/shot.png --window-size=400,300 file://$PWD/page.html 2>/dev/null; file shot.png | grep -o 'PNG image data, 400 x 300' > said
$b --dump-dom http://pypi.example.com/simple/left/ 2>/dev/null | grep -o 'wheels/left-1.0' >> said
$b --dump-dom file://$PWD/page.html 2>/dev/null | grep -o 'worker says 42' >> said
tr '\n' ' ' < said`, want: "PNG image data, 400 x 300 wheels/left-1.0 worker says 42"},

	{name: "postgres", script: `
export PATH=$PATH:$(echo /usr/lib/postgresql/*/bin) PGHOST=/tmp PGDATA=$PWD/data
initdb -A trust -N >/dev/null && pg_ctl start -w -l log -o '-k /tmp -c listen_addresses=127.0.0.1' >/dev/null
createdb x && psql -qAt x -c 'create table t as select generate_series(1,1000) as n; create index on t(n);'
for i in 1 2 3 4; do psql -qAt x -c "insert into t select generate_series($i*1000+1,$i*1000+1000)" & done; wait
psql -qAt -h 127.0.0.1 x -c 'set max_parallel_workers_per_gather=2; set min_parallel_table_scan_size=0; set parallel_setup_cost=0; select sum(n) from t' | tail -1 > sum
pg_ctl stop -m fast >/dev/null; pg_ctl start -w -l log -o '-k /tmp' >/dev/null; psql -qAt x -c 'select count(*) from t' >> sum; pg_ctl stop >/dev/null
tr '\n' ' ' < sum`, want: "12502500 5000"},

	{name: "ssh-agent", script: `
eval $(ssh-agent) >/dev/null
ssh-keygen -q -t ed25519 -N '' -f k && ssh-add -q k && ssh-keygen -Y sign -q -f k.pub -n file k.pub && (echo -n 'a '; cat k.pub) > who
ssh-keygen -Y verify -f who -I a -n file -s k.pub.sig < k.pub | cut -d' ' -f1,2; ssh-add -l | wc -l; ssh-agent -k >/dev/null; echo ended`, want: "ended"},

	{name: "gpg", script: `
gpg --batch -q --passphrase '' --quick-gen-key 'A <a@box.test>' ed25519 sign 1y 2>/dev/null
echo text > text && gpg --batch -q --sign text && gpg --batch -q --detach-sign text && gpg --batch --verify text.sig text 2>&1 | grep -o 'Good signature'
git init -q r && cd r && git config user.name A && git config user.email a@box.test && git commit -q -S --allow-empty -m signed && git log -1 --format=%G?`, want: "G"},

	{name: "java", long: true, files: []string{"Main.java", `
import java.net.URI; import java.net.http.*; import java.util.stream.*;
public class Main {
  public static void main(String[] a) throws Exception {
    Process p = new ProcessBuilder("echo", "child").start();
    String said = new String(p.getInputStream().readAllBytes()).trim();
    var c = HttpClient.newHttpClient();
    int status = c.send(HttpRequest.newBuilder(URI.create("http://pypi.example.com/nothing")).build(), HttpResponse.BodyHandlers.ofString()).statusCode();
    try (var pool = java.util.concurrent.Executors.newVirtualThreadPerTaskExecutor()) { for (int i = 0; i < 1000; i++) pool.submit(() -> { Thread.sleep(1); return 1; }); }
    System.out.println(said + " " + status + " " + IntStream.range(0, 100).parallel().sum());
  }
}`}, script: `javac Main.java && java Main`, want: "child 404 4950"},

	{name: "terminal", script: `
python3 -c 'import pty, sys; sys.exit(pty.spawn(["bash", "-c", "tty; stty size"]))' | tr -d '\r' | head -1
script -qec 'test -t 1 && tty' /dev/null < /dev/null | tr -d '\r' | tail -1`, want: "/dev/pts/0"},

	{name: "many files", script: `
mkdir a && for i in $(seq 2000); do echo $i > a/$i; done
mv a b && cp -a b c && tar -cf - c | (mkdir d && tar -xf - -C d) && zip -qr b.zip b && (mkdir e && cd e && unzip -q ../b.zip)
rm -r c d && find . -type f | wc -l`, want: "4002"},
}
