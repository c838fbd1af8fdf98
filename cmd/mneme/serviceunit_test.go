package main

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"mneme/cmd/mneme/serving"
)

// ownNamespace are the directives that give a service a mount namespace of its own, as of systemd
// 258 (exec_needs_mount_namespace in its src/core/execute.c), and those that imply one of them.
// No process outside such a service sees its mounts.
var ownNamespace = strings.Fields(`
	BindLogSockets BindPaths BindReadOnlyPaths DynamicUser ExecPaths ExtensionDirectories ExtensionImages IPCNamespacePath InaccessiblePaths
	JoinsNamespaceOf LogNamespace MountAPIVFS MountFlags MountImages NetworkNamespacePath NoExecPaths PrivateBPF PrivateDevices PrivateIPC
	PrivateMounts PrivateNetwork PrivatePIDs PrivateTmp PrivateUsers ProcSubset ProtectControlGroups ProtectHome ProtectHostname
	ProtectKernelLogs ProtectKernelModules ProtectKernelTunables ProtectProc ProtectSystem ReadOnlyPaths ReadWritePaths RootDirectory
	RootEphemeral RootHash RootImage TemporaryFileSystem`)

// directives are those of a unit for systemd, the last one of each name.
func directives(t *testing.T, name string) map[string]string {
	t.Helper()
	unit, err := os.ReadFile(filepath.Join("..", "..", "contrib", "systemd", name))
	if err != nil {
		t.Fatal(err)
	}
	set := map[string]string{}
	for line := range strings.Lines(string(unit)) {
		name, value, found := strings.Cut(strings.TrimSpace(line), "=")
		if found && !strings.HasPrefix(name, "#") {
			set[name] = value
		}
	}
	return set
}

// confinement is what both units have.
var confinement = map[string]string{
	"AmbientCapabilities": "", "NoNewPrivileges": "yes", "SystemCallErrorNumber": "EPERM", "SystemCallArchitectures": "native",
	"RestrictAddressFamilies": "AF_UNIX AF_INET AF_INET6", "RestrictNamespaces": "yes", "RestrictRealtime": "yes", "RestrictSUIDSGID": "yes",
	"LockPersonality": "yes", "MemoryDenyWriteExecute": "yes", "KeyringMode": "private", "UMask": "0077", "Type": "notify",
}

func checkConfined(t *testing.T, set, also map[string]string) {
	t.Helper()
	for _, want := range []map[string]string{confinement, also} {
		for name, want := range want {
			if got, found := set[name]; !found || got != want {
				t.Errorf("%s is %q, want %q", name, got, want)
			}
		}
	}
	for _, name := range []string{"MemoryMax", "TasksMax", "LimitNOFILE"} {
		if set[name] == "" {
			t.Errorf("there is no %s", name)
		}
	}
}

// The unit for systemd mounts where everybody sees it, with no more rights and no more
// of the machine than a mount needs.
func TestServiceUnitIsConfined(t *testing.T) {
	set := directives(t, "mneme@.service")
	for name := range set {
		if slices.Contains(ownNamespace, name) {
			t.Errorf("with %s nobody else would see the mount", name)
		}
	}
	checkConfined(t, set, map[string]string{
		"CapabilityBoundingSet": "CAP_SYS_ADMIN CAP_SYS_PTRACE CAP_DAC_READ_SEARCH CAP_NET_BIND_SERVICE", "SystemCallFilter": "@system-service @mount",
		"DevicePolicy": "closed", "DeviceAllow": "/dev/fuse rw", "OOMPolicy": "continue",
	})
}

// The server's unit leaves it its stores and its sockets.
func TestServerUnitIsConfined(t *testing.T) {
	checkConfined(t, directives(t, "mneme-serve.service"), map[string]string{
		"User": "mneme", "StateDirectory": "mneme", "Environment": "MNEME_URL=file:///var/lib/mneme", "ExecStart": "/usr/local/bin/mneme serve $MNEME_OPTIONS",
		"CapabilityBoundingSet": "", "SystemCallFilter": "@system-service", "ProtectSystem": "strict", "ProtectHome": "yes", "PrivateTmp": "yes",
		"PrivateDevices": "yes", "TimeoutStopSec": "20",
	})
}

// The server's socket is where it listens by itself, and where clients look for it.
func TestServerSocketIsTheDefault(t *testing.T) {
	listen, _ := reflect.TypeFor[serving.ServeCmd]().FieldByName("Listen")
	if got, want := directives(t, "mneme-serve.socket")["ListenStream"], listen.Tag.Get("default"); got != want {
		t.Errorf("it is at %q, and the server at %q", got, want)
	}
}
