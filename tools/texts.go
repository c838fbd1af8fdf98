package tools

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"mneme/internal/quote"
)

// Texts are the published texts of results and errors. Those that only the SDKs publish are
// the same in both; texts of mneme's own begin with "Error: " where they are errors.
type Texts int

const (
	Documentation Texts = iota // those of the documentation of the memory tool
	SDK                        // those of the TypeScript SDK, as its tool throws them
)

// text is one text in the forms of Texts. The second is "" where it is the first.
type text [2]string

// same is a text that both publish, or neither.
func same(s string) text { return text{s, ""} }

// bare is an error that the documentation publishes with "Error: " before it, and the SDK
// without.
func bare(s string) text { return text{"Error: " + s, s} }

// say fills in a text.
func (t Texts) say(x text, args ...any) string {
	form := x[0]
	if t == SDK && x[1] != "" {
		form = x[1]
	}
	return fmt.Sprintf(form, args...)
}

// The texts of results.
var (
	directoryHead = same("Here're the files and directories up to 2 levels deep in %s, excluding hidden items and node_modules:")
	fileHead      = same("Here's the content of %s with line numbers:")
	viewCut       = same("\n\n[The view ends here, at line %d of %d. Go on with view_range [%d, %[2]d].]")
	lineCut       = same("\n\n[Line %d has %s more, which a view does not show.]")
	listingCut    = same("\n\n[%s not shown. View a directory below, such as %s.]")
	listingFull   = same("\n\n[%s not shown. Nothing here is a directory: move files into some to see them all.]")
	created       = same("File created successfully at: %s")
	replaced      = text{"The memory file has been edited.\n%s", "The memory file has been edited. Here is the snippet showing the change (with line numbers):\n%s"}
	inserted      = same("The file %s has been edited.")
	deleted       = same("Successfully deleted %s")
	renamed       = same("Successfully renamed %s to %s")
	secretSaved   = same("\n\nNote: %s was saved, but %s. The history keeps it, also when the file is changed: if it is real, tell a person to replace it where it was issued.")
	editedNewest  = same("\n\nNote: %s. Your edit was made on the newest version; view the file again before you rely on the rest.")
)

// The texts of errors.
var (
	missing         = same("The path %s does not exist. Please provide a valid path.")
	missingToEdit   = bare("The path %s does not exist. Please provide a valid path.")
	missingToInsert = text{"Error: The path %s does not exist", "The path %s does not exist. Please provide a valid path."}
	missingToMove   = bare("The path %s does not exist")
	directoryToEdit = text{"Error: The path %s does not exist. Please provide a valid path.", "The path %s is not a file."}
	directoryToFill = text{"Error: The path %s does not exist", "The path %s is not a file."}
	tooManyLines    = text{"File %s exceeds maximum line limit of 999,999 lines.", "File %s has too many lines (%d). Maximum is 999,999 lines."}
	rangeOfDir      = same("Error: Invalid `view_range` parameter: %s is a directory.")
	badRange        = same("Error: Invalid `view_range` parameter: [%d, %d]. It should be within the range of lines of the file: [1, %d]")
	notText         = same("Error: File %s is not text.")
	exists          = bare("File %s already exists")
	belowFile       = same("Error: The path %s is a file, not a directory.")
	tooLarge        = same("Error: File %s is too large: %d bytes, at most %d. Split it into several files.")
	noMatch         = same("No replacement was performed, old_str `%s` did not appear verbatim in %s.")
	manyMatches     = same("No replacement was performed. Multiple occurrences of old_str `%s` in lines: %s. Please ensure it is unique")
	emptyOld        = same("Error: Invalid `old_str` parameter: it is empty.")
	badLine         = bare("Invalid `insert_line` parameter: %d. It should be within the range of lines of the file: [0, %d]")
	deleteRoot      = same("Cannot delete the %s directory itself")
	renameRoot      = same("Cannot rename the %s directory itself")
	targetExists    = bare("The destination %s already exists")
	intoItself      = same("Error: %s lies in %s, and nothing can be moved into itself.")
	otherStore      = same("Error: %s and %s are in different stores; create it there and delete it here.")
	noStore         = same("Error: There is no store at %s; the stores are %s.")
	noSuchStore     = same("Error: There is no store %s; the stores are %s.")
	whichStore      = same("Error: Say of which store it is: %s.")
	storeGone       = same("Error: The store of %s is not there any more; nothing was done. Tell a person.")
	outside         = same("Path must start with /memories, got: %s")
	escapes         = same("Path %s would escape /memories directory")
	badPath         = same("Error: Path %s is refused: %v")
	vanished        = same("The file %s no longer exists (may have been deleted or renamed concurrently).")
	lost            = same("Error: %v")
	usedUp          = same("Error: The budget of %s for this quest is used up; nothing was done. Go on with what you know.")
	bytesUsedUp     = same("Error: The budget of %s for this quest is used up; nothing was done. Go on with what you know.")
	heldSecret      = same("Error: The policy of the store holds back this change of %s: %s; nothing was changed. Write it without that, or tell a person, who can confirm it.")
	heldBack        = same("Error: The policy of the store holds back this change of %s; nothing was changed. Make a smaller change, or tell a person, who can confirm it.")
	readOnly        = same("Error: %s is read-only here; nothing was changed.")
	noRoom          = same("Error: There is no room for it (%s); nothing was changed. Trying again later can help.")
	noAnswer        = same("Error: The store does not answer; nothing was changed. Trying again later can help.")
	unsureAnswer    = same("Error: The store did not answer; whether the change was made is not known. View %s before you try again.")
	noVersion       = same("Error: There is no version %s of %s; the newest are %s.")
	erased          = same("Error: The content of version %s of %s was erased, and nobody can bring it back. The versions that are left are in its history.")
	damaged         = same("Error: What the store has at %s is damaged. Trying again does not help; tell a person.")
	tooMany         = same("Error: %s holds more than one change can take; nothing was changed. Do it in parts.")
	denied          = same("Error: This session may not do that to %s; nothing was changed. Tell a person.")
	inUse           = same("Error: The store is in use by another program; nothing was changed. Trying again later can help.")
	conflicted      = same("Error: %s is not what was expected: %s is there now. View it, and base your change on that.")
	otherFiles      = same("Error: What is in %s has changed meanwhile; nothing was deleted. View it and try again.")
	dirToRestore    = same("Error: %s is or was a directory, and nothing was restored. Restore its files one by one: history of it names them with their versions.")
	missingConflict = same("Error: There is no conflict %d of %s.")
	sameLines       = same("Error: Conflict %d cannot be merged: both changed the same lines. Show it, and give the text.")
	conflictMoved   = same("Error: Conflict %d stays: %s has changed since it was kept, %s is there now. Show the conflict, and resolve it again, or with if_version %s.")
	nothingToMerge  = same("Error: Conflict %d cannot be merged: nothing is at %s now. Resolve it with if_version %s and yours or a text, or take theirs to leave it so.")
	directoryToRead = same("Error: %s is a directory, not a file. View or list it, and read a file in it.")
	broken          = same("Error: Something is broken here; whether a change was made is not known. View what you meant to change before you try again.")
	refusedRequest  = same("Error: The request is refused: %v")
)

// The texts for requests that cannot be decoded.
var (
	notJSON      = same("Error: The input is not valid JSON.")
	notObject    = same("Error: The input is not a JSON object.")
	notUnicode   = same("Error: The input is not valid Unicode.")
	tooLong      = same("Error: The input is too long: at most %d bytes.")
	tooDeep      = same("Error: The input is nested too deeply.")
	tooManyParts = same("Error: The input has too many values.")
	noCommand    = same("Error: Unknown command %s. The commands are view, create, str_replace, insert, delete and rename.")
	fieldTwice   = same("Error: The field `%s` is there twice.")
	fieldMissing = same("Error: The field `%s` is missing; %s needs it.")
	fieldUnknown = same("Error: The field `%s` is unknown; %s takes %s.")
	fieldType    = same("Error: The field `%s` must be %s, not %s.")
	fieldNUL     = same("Error: The field `%s` has the character U+0000, which a view cannot show; leave it out.")
	fieldRange   = same("Error: The field `%s` is out of range.")
)

// shown returns a path, or another word of the request, for a text.
func shown(s string) string { return quote.Text(clip(s, quote.MaxName)) }

// clip returns the beginning of s, of at most so many bytes, and says with … that there was
// more.
func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	end := most
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + "…"
}

// list joins words as a sentence does.
func list(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " and " + words[len(words)-1]
}

// joinNumbers is how numbers of lines stand in texts; more: there are others.
func joinNumbers(numbers []int, more bool) string {
	words := make([]string, len(numbers))
	for i, n := range numbers {
		words[i] = strconv.Itoa(n)
	}
	if more {
		words = append(words, "…")
	}
	return strings.Join(words, ", ")
}
