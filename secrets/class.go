package secrets

// class is a set of bytes.
type class [256]bool

func classOf(ranges string) (c class) {
	for i := 0; i < len(ranges); i += 2 {
		for b := int(ranges[i]); b <= int(ranges[i+1]); b++ {
			c[b] = true
		}
	}
	return c
}

// run returns how many bytes of a class a text begins with, counting no more than so many.
func run(text []byte, c *class, most int) int {
	for i, b := range text[:min(len(text), most)] {
		if !c[b] {
			return i
		}
	}
	return min(len(text), most)
}

// The alphabets of credentials.
var (
	digits   = classOf("09")
	octal    = classOf("07")
	lowerHex = classOf("09af")

	lowerBase36 = classOf("09az")
	hex         = classOf("09afAF")
	letters     = classOf("azAZ")
	upper       = classOf("09AZ")
	base32      = classOf("27AZ")
	base62      = classOf("09azAZ")
	base64      = classOf("09azAZ++//")
	base64Pad   = classOf("09azAZ++//==")
	base64URL   = classOf("09azAZ--__")
	dotted      = classOf("09azAZ--__..")
	padded      = classOf("09azAZ--__++//==")
	percent     = classOf("09azAZ--__++//==%%")
	azure       = classOf("09azAZ--__..~~")
	bech32      = classOf("0029AACHJNPZ")
	telegram    = classOf("09azAZ--__::")
	word        = classOf("09azAZ__")

	parameters = classOf(" ?") // and intermediate bytes, of a control sequence
)
