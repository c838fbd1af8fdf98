package session

import "mneme/memory"

// pending is a commit of this session that its follower has yet to meet, or of which it is not
// known whether it is in the log. Each is known by its key. It continues like this:
//
//	under way ──► brought in ──► met: the session's own
//	 │     ▲
//	 ▼     │ the next Save of the text
//	reply lost ──► met: the text is told, and its next Save finds it so
//
// In words:
//
//  1. While a commit is under way, the follower waits with it (AwaitOwn): the maker is the
//     first to bring it in. So a session never takes its own change for another's.
//  2. A commit that succeeded stays here until the follower has met it. One that was
//     refused is not in the log, and is forgotten.
//  3. A commit that ends with an error that is not final may be in the log: its reply is
//     lost. If it is of a text, the text has its draft from then on (LostReply), and the
//     next Save proposes the very same draft under the same key. The log answers with the
//     commit that it has made, or makes it now. Until that is known nothing else of the
//     text is proposed, and nothing renames or removes its path (Settle).
//  4. A commit of names is not tried again. When it turns up, it is brought in as another
//     session's would be, and then the session knows the outcome (Adopt).
//  5. A draft is settled once: by the Save that proposes it again, or by the follower that
//     meets it, whichever is the first to find it here.
//
// A session that is not followed has only 3, and lostCall.
type pending struct {
	key     string
	makers  int           // that are making it at the moment
	done    chan struct{} // closed when there are none left; made for a caller that waits for that
	brought bool          // its maker has brought it in
	text    Text          // whose draft it is; nil: it is of names
	draft   *Draft
}

// lostCall is a call whose reply was lost, and which is not tried again, as a text is: it was of
// names, or of whatever is there. The next call about its paths finds out what became of it. In a
// session that is followed, Meet does that.
type lostCall struct {
	key    string
	claims []Claim
	knows  knowing
}

// knowing is what the session knows of a path after it has made a version there.
type knowing func(Knowledge, *memory.Head) Knowledge

// maxLost bounds the lost replies, of each kind, for which no caller asks any longer. A commit
// that is forgotten is met as another session's.
const maxLost = 64
