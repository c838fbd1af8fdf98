// Package openapi has the description of a server's API, in OpenAPI 3.1. The tests of the
// server check every request and answer against it.
package openapi

import _ "embed"

// Path is the path of the document on a server, which needs no credential.
const Path = "/openapi.json"

// Document is the document.
//
//go:embed openapi.json
var Document []byte
