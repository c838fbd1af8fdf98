package upkeep

import (
	"context"
	"encoding/json"
	"os"

	"mneme/backend"
	"mneme/cmd/mneme/app"
	"mneme/cmd/mneme/term"
	"mneme/internal/quote"
)

// SetupCmd is the command `mneme setup`.
type SetupCmd struct {
	Print       bool   `help:"Touch nothing; print the IAM policies for least privilege and the equivalent commands of the AWS command line."`
	Move        bool   `help:"The table's objects were copied to this bucket on purpose: make the table this bucket's. End all mounts first, for they go on with the old bucket."`
	BucketOwner string `name:"bucket-owner" placeholder:"ACCOUNT" help:"The account that the bucket belongs to, 12 digits on AWS; every request to the bucket then names it. Default: that of the table, where the server has accounts."`
	Region      string `placeholder:"REGION" help:"AWS region. Default: as the AWS SDK finds it (AWS_REGION, the profile)."`
}

func (c *SetupCmd) Help() string {
	return `Makes what is missing of the bucket and the table that the URL names: table (on-demand billing, time to live, point-in-time recovery, deletion protection) and bucket (no public access; what is deleted is kept for 30 days). Run it again at any time: it changes no setting of a bucket that is there, and brings the table of an older mneme up to date; end the mounts of that first. It notes in the table which account the bucket belongs to, and refuses the bucket of another.

Examples:

    mneme --url 'aws://my-bucket?table=mneme' setup
    mneme --url 'aws://my-bucket?table=mneme' setup --print > policies.txt`
}

func (c *SetupCmd) Run(ctx context.Context, a *app.App) error {
	at, err := app.Locate(a.URL)
	if err != nil {
		return err
	}
	if c.BucketOwner != "" && !accountName().MatchString(c.BucketOwner) {
		return app.Usagef("--bucket-owner %q is no account: want its 12 digits, or what your server calls it", c.BucketOwner)
	}
	if c.Region != "" {
		if err := os.Setenv(regionVariable, c.Region); err != nil {
			return err
		}
	}
	opts := &backend.SetupOptions{Move: c.Move, Owner: c.BucketOwner}
	if at.Setup == nil {
		if a.JSON {
			return a.PrintJSON(struct {
				URL string `json:"url"`
			}{at.URL})
		}
		a.Printf("%v needs no setup. `mneme store create NAME` makes a store there.\n", at)
		return nil
	}
	if c.Print {
		return printPlan(a, at, at.Setup.Plan(opts))
	}
	orphaned, err := at.Setup.Run(ctx, opts, func(s backend.SetupStep) { printStep(a, s) })
	switch {
	case err != nil || a.JSON:
	case orphaned:
		a.Printf("\nReady. Next, to bring back the stores of this bucket:\n  %s fsck --rebuild-index\n", a.Command())
	default:
		a.Printf("\nReady. Next:\n  %s store create notes\n  %s mount notes\n", a.Command(), a.Command())
	}
	return err
}

// accountName matches the name of an account: 12 digits on AWS, a user on other servers.
var accountName = app.Pattern(`^[A-Za-z0-9._-]{1,128}$`)

// regionVariable names the environment variable from which the AWS SDK first reads the
// region.
const regionVariable = "AWS_REGION"

// printStep prints a step when it is done: a table takes a while.
func printStep(a *app.App, s backend.SetupStep) {
	if a.JSON {
		_ = a.PrintJSON(s)
	} else {
		color := term.Green
		if s.Outcome == backend.SetupDiffers || s.Outcome == backend.SetupUnsupported {
			color = term.Yellow
		}
		note := ""
		if s.Note != "" {
			note = " (" + s.Note + ")"
		}
		a.Printf("%s: %s%s\n", quote.Text(s.What), a.Paint(color, string(s.Outcome)), quote.Text(note))
	}
	_ = a.Out.Flush() // the last flush tells of trouble
}

func printPlan(a *app.App, at *backend.Location, plan *backend.SetupPlan) error {
	if a.JSON {
		return a.PrintJSON(plan)
	}
	a.Printf("# What `mneme setup` makes for %v, with the AWS command line:\n\n", at)
	for _, command := range plan.Commands {
		a.Printf("%s\n", command)
	}
	a.Printf("\n# IAM policies. * stands for your account (and region, if none was named). In those for\n"+
		"# one store, put what `mneme store show NAME` says in place of %s and %s.\n", plan.StoreID, plan.StoreSlug)
	for _, p := range plan.Policies {
		text, err := json.MarshalIndent(p.Policy, "", "  ")
		if err != nil {
			return err
		}
		a.Printf("\n# %s: for %s\n%s\n", p.Name, p.For, text)
	}
	return nil
}
