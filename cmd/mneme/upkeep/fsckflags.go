package upkeep

import "mneme/witness"

// FsckCmd is the command `mneme fsck`.
type FsckCmd struct {
	Store        string `arg:"" optional:"" help:"Its name or id. Default: all stores."`
	Quick        bool   `help:"Only ask the index whether the bytes of every version exist. Reads no contents, compares no rows, and reads records only where it must."`
	Repair       bool   `help:"Put bytes back that are lost, where this machine's cache still has them."`
	RebuildIndex bool   `help:"First make the index (the DynamoDB table's rows) anew from the records in S3, and put records back there that only the table has: of all stores that the bucket has, or of STORE alone. No store need be known any more; a lost table wants mneme setup before."`
	Against      string `placeholder:"TIP" help:"Prove that STORE's history has this commit, and so everything before it as it was: DIGEST or SEQ:DIGEST, as 'mneme store show' prints the tip, or with --verify-key the file of a note, as 'mneme store sign' prints it."`
	VerifyKey    string `placeholder:"KEY" help:"The key by which the note is verified, as 'mneme store sign --new-key' has printed it."`
	AcceptLoss   bool   `help:"Go on without what was acknowledged and is missing, as after going back to a backup: this machine takes the histories as they are. Of embedded stores, what is left of log.db-wal is kept in a copy beside it."`

	noted *witness.SignedTip // by which the history must be proved; nil: by none
}

func (c *FsckCmd) Help() string {
	return `Checks that every record of the history holds and follows the one before it, that what is current is what the records say, that the bytes of every version are there and right, that nothing is missing which was acknowledged, and, on AWS, that DynamoDB and S3 agree. Changes nothing without --repair, --rebuild-index or --accept-loss. Exit code 7 says that there are problems; docs/BACKUP.md lists all that there can be, and what mends them. 'mneme verify' is the same command.

Examples:

    mneme fsck notes
    mneme fsck --quick                  (all stores, only whether all bytes exist)
    mneme fsck --rebuild-index          (all stores of the bucket, after the table was lost and set up again)
    mneme fsck notes --rebuild-index    (that store alone)`
}
