package daemon

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"
)

// Rounds is how often a test does what it repeats: in the long form (BOX_TEST_ALL), in the plain one, and in the quick loop (-short).
func Rounds(long, plain, short int) int {
	switch {
	case os.Getenv("BOX_TEST_ALL") != "":
		return long
	case testing.Short():
		return short
	}
	return plain
}

// Seed starts a random sequence. BOX_SEED repeats the one of an earlier run.
func Seed(t testing.TB) *rand.Rand {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("BOX_SEED"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatalf("BOX_SEED is %q, not a number", s)
		}
		seed = n
	}
	t.Logf("BOX_SEED=%d repeats the random choices of this run", seed)
	return rand.New(rand.NewPCG(seed, seed))
}
