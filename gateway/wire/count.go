package wire

// Decoded values take many times the memory of their JSON if that is mostly brackets.
const (
	maxAround = 16 // objects of a record, or an answer, beside its versions
	minMember = 16 // bytes that a member of a version has at least; most are ids and digests
)

// count returns how many objects JSON has, and how many commas, outside of texts.
func count(data []byte) (objects, commas int) {
	text := false
	for i := 0; i < len(data); i++ {
		switch b := data[i]; {
		case text && b == '\\':
			i++
		case b == '"':
			text = !text
		case text:
		case b == '{':
			objects++
		case b == ',':
			commas++
		}
	}
	return objects, commas
}
