package main

import (
	"bufio"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/paceline-go/paceline/job"
	"github.com/paceline-go/paceline/transport"
)

// caller is who sent a request.
type caller struct {
	tenant string
	// best is the most urgent class that it may claim.
	best job.Priority
	// trusted says that it may name its tenant itself.
	trusted bool
}

// anonymous is the tenant of trusted callers that name none.
const anonymous = "anonymous"

// keyring knows the callers by the hashes of their keys: looking a hash up tells
// nothing about a key by the time it takes. A nil keyring trusts everybody.
type keyring map[[sha256.Size]byte]caller

// readKeys reads a file of keys, one in a line:
//
//	# key            tenant  best class (free if missing)
//	sk-acme-5f0c…    acme    paid
//
// A key has at least 16 characters, a class is paid, free, background or 0 to 9.
// Errors name the line, never the key.
func readKeys(path string) (keyring, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("-keys: %w", err)
	}
	defer file.Close()
	keys := make(keyring)
	lines := bufio.NewScanner(file)
	for n := 1; lines.Scan(); n++ {
		words := strings.Fields(lines.Text())
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		bad := func(why string) (keyring, error) {
			return nil, fmt.Errorf("-keys: %s, line %d: %s", path, n, why)
		}
		if len(words) < 2 || len(words) > 3 {
			return bad("want KEY TENANT [CLASS]")
		}
		if len(words[0]) < 16 {
			return bad("a key must have at least 16 characters")
		}
		c := caller{tenant: words[1], best: job.Free}
		if err := checkTenant(c.tenant); err != nil {
			return bad(err.Error())
		}
		if len(words) == 3 {
			var err error
			if c.best, err = job.ParseTier(words[2]); err != nil {
				c.best, err = job.ParseClass(words[2])
			}
			if err != nil {
				return bad("the class must be paid, free, background or 0 to 9")
			}
		}
		hash := sha256.Sum256([]byte(words[0]))
		if _, twice := keys[hash]; twice {
			return bad("the key is in the file already")
		}
		keys[hash] = c
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("-keys: %w", err)
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("-keys: %s has no keys", path)
	}
	return keys, nil
}

// identify returns who sent the request. X-Tenant is believed only where there
// are no keys, which is on loopback.
func (k keyring) identify(r *http.Request) (caller, error) {
	if k == nil {
		c := caller{tenant: anonymous, best: job.P0, trusted: true}
		if name := r.Header.Get("X-Tenant"); name != "" {
			if err := checkTenant(name); err != nil {
				return caller{}, invalid("X-Tenant", err.Error())
			}
			c.tenant = name
		}
		return c, nil
	}
	key := r.Header.Get("X-Api-Key")
	if scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " "); ok && strings.EqualFold(scheme, "Bearer") {
		key = strings.TrimSpace(token)
	}
	if key == "" {
		return caller{}, &transport.Error{
			Status: http.StatusUnauthorized, Type: transport.InvalidRequest,
			Message: "You didn't provide an API key. Send it in the header Authorization: Bearer KEY.",
		}
	}
	c, ok := k[sha256.Sum256([]byte(key))]
	if !ok {
		return caller{}, &transport.Error{
			Status: http.StatusUnauthorized, Type: transport.InvalidRequest, Code: "invalid_api_key",
			Message: "Incorrect API key provided.",
		}
	}
	return c, nil
}

const maxTenant = 128

var errTenant = errors.New("a tenant's name is 1 to 128 bytes of printable text without spaces, commas and equals signs")

func checkTenant(name string) error {
	bad := func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) || r == ',' || r == '=' }
	if name == "" || len(name) > maxTenant || !utf8.ValidString(name) || strings.ContainsFunc(name, bad) {
		return errTenant
	}
	return nil
}
