package upkeep

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"mneme/backend"
	"mneme/cmd/mneme/app"
	"mneme/internal/plural"
	"mneme/internal/quote"
	"mneme/internal/xdg"
	"mneme/memory"
)

// DoctorCmd is the command `mneme doctor`.
type DoctorCmd struct {
	At string `default:"${mountdir}" type:"path" placeholder:"DIR" help:"The directory to mount at. Default: ${mountdir}."`
}

func (c *DoctorCmd) Help() string {
	return `Tries what mneme needs of this machine, and of where the stores are: FUSE, the kernel, the directory to mount at, the user's own directories, the stores and the directory that they are in, and for an aws:// URL conditional writes, the clock and latency of S3 and DynamoDB, with an object and a row of its own that it removes again. Each is ok, a warning or a failure, with what to do. Ends with exit code 1 if something fails. It takes at most half a minute, and prints no credentials.

Examples:

    mneme doctor
    mneme doctor --url 'aws://team-memories?table=mneme' --json`
}

// doctorTimeout limits the time for requests to other machines.
const doctorTimeout = 30 * time.Second

// errUnwell says that a check failed and was printed.
var errUnwell = errors.New("mneme does not have all that it needs here")

func (c *DoctorCmd) Run(ctx context.Context, a *app.App) error {
	ctx, cancel := context.WithTimeout(ctx, doctorTimeout)
	defer cancel()
	e := &examination{a: a}
	e.machine(machineHere, c.At)
	e.directories()
	e.stores(ctx, a.URL)
	if e.failed {
		return errUnwell
	}
	return a.OutError()
}

// stores checks the library at a URL.
func (e *examination) stores(ctx context.Context, rawURL *string) {
	at, err := app.Locate(rawURL)
	if err != nil {
		e.failure("stores", err)
		return
	}
	if at.Probe != nil {
		err := at.Probe(ctx, func(p backend.Probed) {
			switch {
			case errors.Is(p.Err, backend.ErrNotAllowed):
				e.warning(p.What, fmt.Errorf("it could not be tried: %w", p.Err))
			case p.Err != nil:
				e.failure(p.What, p.Err)
			default:
				e.ok(p.What, p.Note)
			}
		})
		if err != nil {
			e.failure("credentials", err)
			return
		}
	}
	if own, err := xdg.Data(); at.Dir != "" && (err != nil || at.Dir != own) {
		if _, err := os.Stat(at.Dir); err == nil {
			e.directory("store directory", at.Dir)
		}
	}
	lib, err := app.OpenAt(ctx, at, app.Reading)
	if errors.Is(err, backend.ErrNoStores) && rawURL == nil {
		e.ok("stores", "none yet; `mneme store create NAME` makes the first")
		return
	}
	if err != nil {
		e.failure("stores", err)
		return
	}
	defer func() {
		if err := lib.Close(); err != nil {
			e.failure("stores", err)
		}
	}()
	if _, ahead := lib.Clock(); ahead != 0 {
		e.failure("clock", fmt.Errorf("it is %s that of the stores; set it, as `timedatectl set-ntp true` does", memory.Apart(ahead)))
	}
	list, err := lib.Stores(ctx)
	if err != nil {
		e.failure("stores", err)
		return
	}
	var took []time.Duration
	for i := range list {
		began := time.Now()
		what := "store " + quote.Name(list[i].Slug)
		st, err := lib.Open(ctx, list[i].ID, nil)
		ahead := ""
		if err == nil {
			ahead, err = aheadOfClock(ctx, lib, st)
		}
		if err != nil {
			e.failure(what, err)
			return
		}
		if ahead != "" {
			e.warning(what, errors.New(ahead))
		}
		if took = append(took, time.Since(began)); len(took) == maxExamined {
			break
		}
	}
	note := fmt.Sprintf("%s at %v", plural.Of(len(list), "store"), at)
	if len(took) > 0 {
		slices.Sort(took)
		note += fmt.Sprintf("; p50 of asking for a tip %v", took[len(took)/2].Round(10*time.Microsecond))
	}
	e.ok("stores", note)
}

// maxExamined is the largest number of stores that are opened.
const maxExamined = 20
