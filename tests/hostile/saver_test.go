package hostile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"time"
)

// savesOrder names the variable that makes the test binary a program which saves a
// file over and over, with a saveOrder in JSON.
const savesOrder = "MNEME_HOSTILE_SAVES"

// saveOrder is what such a program has to do.
type saveOrder struct {
	File  string
	Saves int
	Pause time.Duration // between two saves
}

// latencies are how long saves took, in order of length.
type latencies []time.Duration

// percentile returns the latency that p of 100 saves do not exceed, by nearest rank.
func (l latencies) percentile(p int) time.Duration {
	return l[max(0, int(math.Ceil(float64(len(l))*float64(p)/100))-1)]
}

// makeSaves obeys a saveOrder, prints the latencies, and returns the exit code.
func makeSaves(text string) int {
	var o saveOrder
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return fatal(err)
	}
	took := make(latencies, o.Saves)
	for i := range took {
		content := bytes.Repeat(fmt.Appendf(nil, "save %10d\n", i), 4096/16)
		start := time.Now()
		if err := save(o.File, content); err != nil {
			return fatal(err)
		}
		took[i] = time.Since(start)
		time.Sleep(o.Pause)
	}
	slices.Sort(took)
	if err := json.NewEncoder(os.Stdout).Encode(took); err != nil {
		return fatal(err)
	}
	return 0
}

// save opens a file, writes it again and closes it.
func save(name string, content []byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Close())
}
