// Package openapi has the description of what a server answers, in OpenAPI 3.1. The tests of the
// server hold it against every request and answer.
package openapi

import _ "embed"

// Path is where a server serves the document, to anybody.
const Path = "/openapi.json"

// Document is the document.
//
//go:embed openapi.json
var Document []byte
