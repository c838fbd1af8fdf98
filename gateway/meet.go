package gateway

import (
	"context"
	"fmt"
	"time"

	"mneme/gateway/wire"
)

// Credential returns the server's answer about the current credential. The answer about one
// that has just come is known once the server has been asked: within two seconds if it
// answers at once.
func (l *Log) Credential() Credential { return l.credential.Load().Credential }

// meet asks the server for its capabilities, and for the client's identity.
func (l *Log) meet(ctx context.Context) (*wire.Hello, error) {
	// A program that has just begun says soon that there is no server.
	r := &request{op: wire.OpHello, body: []byte("{}"), limit: l.client.attempt}
	answer, err := l.client.answer(ctx, r, nil)
	if err != nil {
		return nil, err
	}
	if answer.Hello == nil || answer.Hello.Protocol != wire.Protocol {
		return nil, ErrProtocol
	}
	one := &known{secret: r.secret}
	if c := answer.Hello.Caller; c != nil {
		if !isWord(c.Key) || c.Session != "" && !isWord(c.Session) {
			return nil, fmt.Errorf("%w: the key or the session of the credential has no id that can be one", ErrProtocol)
		}
		one.Credential = Credential{Key: c.Key, Session: c.Session, told: true, always: c.Everywhere, rights: c.Grants}
	}
	l.credential.Store(one)
	return answer.Hello, nil
}

// lookTime is how often a Log looks for another credential than the one it knows of.
const lookTime = time.Second

// watch asks the server about each new credential, until the Log is closed. A follower
// waits with the credential that it began with, so it is restarted: it must learn that the
// credential is no longer valid, or is missing.
func (l *Log) watch() {
	ticks := time.NewTicker(lookTime)
	defer ticks.Stop()
	isMissing := false
	for last := l.credential.Load().secret; ; {
		select {
		case <-l.life.Done():
			return
		case <-ticks.C:
		}
		secret, err := l.client.token()
		if err != nil && !isMissing {
			isMissing = true // a file that is being written has none for a moment
			continue
		}
		isMissing = err != nil
		if isMissing {
			secret = "" // which no credential is
		}
		if secret != last {
			last = secret
			l.pollAnew()
		}
		if err == nil && secret != l.credential.Load().secret {
			_, _ = l.meet(l.life) // what fails is done again
		}
	}
}
