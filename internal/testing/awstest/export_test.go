package awstest

// FreePort is freePort for the tests from outside.
var FreePort = freePort
