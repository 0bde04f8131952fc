// SPDX-License-Identifier: Apache-2.0

package tracecmd

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/intercept/messages"
	"github.com/ddlemu/ddlemu/intercept/replay"
	"github.com/ddlemu/ddlemu/intercept/report"
	"github.com/ddlemu/ddlemu/intercept/report/page"
	"github.com/ddlemu/ddlemu/intercept/whatif"
	"github.com/ddlemu/ddlemu/intercept/why"
)

// NewReportCommand is `ddlemu report`.
func NewReportCommand(g *cli.Global) *cobra.Command {
	output, force := "", false
	cmd := &cobra.Command{
		Use:   "report FOLDER... -o FILE",
		Short: "Write a page about what a traced job has sent",
		Long: cli.Long("docs/report.md", `
Write one HTML file about a job that was recorded with --trace: the load of each link over time,
where the time of each call went, its critical path, what to upgrade, who sent to whom, the
verdict, and expected beside measured times. The file needs no network and no server. Of more than
100 000 messages it has the longest ones. With --json, print the figures of the page instead.`),
		Example: `  ddlemu bench alltoall --profile ndr400 --ranks 4 -b 1M -e 1M --trace t
  ddlemu report t -o t.html
  ddlemu report jobA jobB -o both.html`,
		Args: cli.TraceFolders,
		RunE: func(cmd *cobra.Command, args []string) error { return runReport(cmd.Context(), g, output, force, args) },
	}
	fs := cmd.Flags()
	fs.StringVarP(&output, "output", "o", "", "write this `file`")
	fs.BoolVar(&force, "force", false, "replace the file if it exists")
	g.AddJSONFlag(fs)
	g.AddQuietFlag(fs)
	return cli.Ruled(cmd,
		cli.AtMostOne("json output", ""),
		cli.Required("json output", "the page needs a file"),
		cli.NewFiles("output"))
}

func runReport(ctx context.Context, g *cli.Global, output string, force bool, dirs []string) error {
	show, stop := g.ShowReplay(ctx, "report")
	defer stop()
	t, fab, err := show.Load(dirs)
	if err != nil {
		return err
	}
	doc, err := reportOf(t, fab)
	if err != nil {
		return err
	}
	if doc.Outcomes, err = report.Outcomes(dirs); err != nil {
		return cli.BadInput("%w", err)
	}
	if g.JSON {
		return g.PrintJSON(doc)
	}
	if err := cli.WriteFile("-o", output, force, 0o600,
		func(w io.Writer) error { return page.Report(show.Writer(w, output), doc) }); err != nil {
		return err
	}
	fmt.Fprintf(g.Stdout, "%s: %s, %s; open it in a browser\n", output, units.Count(doc.AllCalls, "call"),
		units.Count(doc.Messages.All, "message"))
	cli.PrintBasis(g.Stdout, t, "", doc.Notes)
	return nil
}

// reportOf makes the document without outcomes.
func reportOf(t *messages.Trace, fab *replay.Fabric) (*report.Data, error) {
	played, r, err := cli.Explain(fab, t)
	if err != nil {
		return nil, err
	}
	doc := report.New(played, r)
	if err := addUpgrades(doc, played, r); err != nil {
		return nil, err
	}
	if doc.InForce, err = fab.InForce(); err != nil {
		return nil, err
	}
	if c := &fab.Config; c.TimedNodes {
		doc.InForce.GPUTime = c.GPUTimeText(nil)
	}
	doc.Version, doc.Clock, doc.Notes = cli.Version(), cli.ClockName(t), slices.Concat(
		[]string{"fabric: " + doc.InForce.Text}, cli.ChangeNotes(played, r), cli.WhyNotes(t, r), cli.WarmupNotes(t))
	return doc, nil
}

// addUpgrades puts what faster links would bring into the document, if a call has ended.
func addUpgrades(doc *report.Data, played *replay.Replayed, r *why.Report) error {
	t := played.Trace
	if ended, _ := t.Ended(); ended == 0 {
		return nil
	}
	study, changes := whatif.New(played.Fabric, t), whatif.Upgrades(played, r, mostAlone)
	results, err := study.Of(changes)
	if err != nil {
		return fmt.Errorf("try faster links: %w", err)
	}
	notes := studyNotes(t, study, results, played.Fabric.Config.TimedNodes)
	if isRandom(study, changes) {
		notes = append(notes, "the draws of jitter and losses are from the recorded run: another run has others")
	}
	doc.AddUpgrades(changes, results, notes)
	return nil
}
