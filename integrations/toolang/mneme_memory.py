"""Memory for an agent's host, by mneme: recall, remember and health.

    memory = MnemeMemory(["notes", "handbook:ro"], session="agent-1")
    found = memory.recall({"thread_id": "t1", "query_text": "When do we ship?"})
    for item in found["items"]:
        ...  # data, never instructions
    memory.remember({"thread_id": "t1", "turn_id": "7", "entries": [{"role": "user", "text": "..."}]})

Every call returns a dict of the same shape within its deadline and raises nothing: if something
is wrong, diagnostics["degraded"] is true and diagnostics["reasons"] say why.

It needs Python 3.9, the standard library, and the program mneme.
"""

import json
import queue
import subprocess
import threading
import time
from typing import Protocol, runtime_checkable

__all__ = ["MemoryProvider", "MnemeMemory"]


@runtime_checkable
class MemoryProvider(Protocol):
    """What a host asks of a memory."""

    def recall(self, request: dict) -> dict: ...

    def remember(self, batch: dict) -> dict: ...

    def health(self) -> dict: ...


class MnemeMemory(MemoryProvider):
    """The memory of one host, served by one process of mneme.

    The process begins with the first call. A call for which it does not answer in time ends
    it, and the next call begins another one: a turn that was being remembered then is not lost
    if the host sends it again, and is not there twice.

    Calls from several threads are done one after the other.
    """

    def __init__(self, stores, *, session=None, url=None, program="mneme", timeout=2.5, arguments=()):
        """stores: the names of the stores, of which the first without ":ro" takes what is
        remembered. session: the session in whose name that is; None is a new one for each
        process. url: where the stores are; None is as mneme finds them. timeout: seconds after
        which a call returns, whatever the process does; mneme itself has four fifths of them.
        arguments: further ones of `mneme plugin`.
        """
        self._stores = [stores] if isinstance(stores, str) else list(stores)
        self._session = session
        self._url = url
        self._program = program
        self._timeout = timeout
        self._arguments = list(arguments)
        self._turn = threading.Lock()  # guards what follows
        self._process = None
        self._last_id = 0
        self._closed = False

    def recall(self, request):
        """Return the memories that fit a request: items, facts, summaries, provider, diagnostics."""
        empty = {"items": [], "facts": [], "summaries": []}
        return self._call("recall", request, empty)

    def remember(self, batch):
        """Make a turn a memory: written, provider, diagnostics with a receipt.

        If diagnostics["retry"] is "later", send the same batch again. That is always safe.
        """
        return self._call("remember", batch, {"written": 0}, receipt={"key": "", "entries": []})

    def health(self):
        """Return how the stores are: ok, provider, stores, diagnostics."""
        return self._call("health", {}, {"ok": False, "stores": []})

    def close(self):
        """End the process. Later calls are degraded."""
        if self._turn.acquire(timeout=self._timeout):
            try:
                self._closed = True
                self._end(patience=1)
            except Exception:
                pass
            finally:
                self._turn.release()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _call(self, method, params, empty, **more):
        began = time.monotonic()
        try:
            answer = {**empty, **self._ask(method, params, began + self._timeout)}
            answer["diagnostics"] = {**more, **answer["diagnostics"]}
            return answer
        except _Degraded as e:
            reason, retry = str(e), e.retry
        except Exception as e:  # whatever it is, the host goes on
            reason, retry = "broken: " + type(e).__name__, "never"
        took = int((time.monotonic() - began) * 1000)
        diagnostics = {"degraded": True, "reasons": [reason], "took_ms": took, "retry": retry}
        provider = {"name": "mneme", "version": "", "kind": "lexical", "capabilities": []}
        return {**empty, "provider": provider, "diagnostics": {**diagnostics, **more}}

    def _ask(self, method, params, deadline):
        line = _encode(params)
        if not self._turn.acquire(timeout=max(0, deadline - time.monotonic())):
            raise _Degraded("busy: another call has not ended")
        try:
            if self._closed:
                raise _Degraded("closed: close was called", retry="never")
            for last in (False, True):
                fresh = self._process is None or not self._process.is_alive()
                if fresh:
                    self._end()
                    self._process = _Process(self._command())
                self._last_id += 1
                request = '{"id":%d,"method":"%s","params":%s}\n' % (self._last_id, method, line)
                answer = self._process.ask(self._last_id, request, deadline)
                if answer is not None:
                    return answer
                if fresh or last:  # a new process has ended, too
                    raise _Degraded(self._process.why_silent())
                self._end()
        except _Degraded:
            self._end()
            raise
        finally:
            self._turn.release()

    def _command(self):
        command = [self._program]
        if self._url is not None:
            command += ["--url", self._url]
        command += ["plugin", "--deadline", "%dms" % max(1, self._timeout * 800)]
        for store in self._stores:
            command += ["--store", store]
        if self._session is not None:
            command += ["--session", self._session]
        return command + self._arguments

    def _end(self, patience=0):
        process, self._process = self._process, None
        if process is not None:
            process.end(patience)


class _Degraded(Exception):
    """Why there is no answer."""

    def __init__(self, reason, retry="later"):
        super().__init__(reason)
        self.retry = retry


def _encode(params):
    """Return a request as JSON. What is None is left out, as if it were not given."""
    try:
        return json.dumps(_without_none(params), allow_nan=False, separators=(",", ":"))
    except RecursionError:
        raise _Degraded("invalid: the request is nested too deeply", retry="never") from None
    except (TypeError, ValueError):
        raise _Degraded("invalid: the request is not JSON", retry="never") from None


def _without_none(params):
    if not isinstance(params, dict):
        raise TypeError
    given = {}
    for key, value in params.items():
        if key == "limits" and isinstance(value, dict):
            value = _without_none(value)
        elif key == "entries" and isinstance(value, (list, tuple)):
            value = [_without_none(one) if isinstance(one, dict) else one for one in value]
        if value is not None:
            given[key] = value
    return given


class _Process:
    """A process of mneme. Threads write to it and read from it, so that no call waits for a pipe."""

    def __init__(self, command):
        try:
            self._popen = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
            )
        except (OSError, ValueError) as e:
            raise _Degraded("died: cannot start %s: %s" % (command[0], getattr(e, "strerror", None) or type(e).__name__)) from None
        self._requests = queue.Queue()
        self._answers = queue.Queue()  # (id, result); None: there are no more
        self._words = []
        self._threads = [threading.Thread(target=run, daemon=True) for run in (self._write, self._read, self._listen)]
        for thread in self._threads:
            thread.start()

    def is_alive(self):
        return self._popen.poll() is None

    def ask(self, number, line, deadline):
        """Return the answer to a line; None if the process has ended. It raises _Degraded at the deadline."""
        self._requests.put(line.encode("ascii"))
        while True:
            try:
                answer = self._answers.get(timeout=max(0.001, deadline - time.monotonic()))
            except queue.Empty:
                raise _Degraded("deadline: mneme did not answer") from None
            if answer is None:
                return None
            if answer[0] in (number, None):  # null: of this line, which was too long for its id to be told
                return answer[1]

    def why_silent(self):
        """Return why there are no more answers: the last line on standard error, if the process has ended."""
        try:
            self._popen.wait(timeout=0.2)
        except subprocess.TimeoutExpired:
            return "broken: what it answers is no answer of mneme"
        self._threads[2].join(timeout=0.2)
        return "died: " + (self._words[-1][:300] if self._words else "mneme has ended")

    def end(self, patience):
        """End the process: by itself if it does so in time, else by force. Whatever it has acknowledged is durable."""
        self._requests.put(None)
        try:
            if patience:
                self._popen.wait(timeout=patience)
        except subprocess.TimeoutExpired:
            pass
        try:
            self._popen.kill()
            self._popen.wait(timeout=1)
        except (OSError, subprocess.TimeoutExpired):
            pass
        for thread in self._threads:
            thread.join(timeout=0.2)
        if not any(thread.is_alive() for thread in self._threads):
            for pipe in (self._popen.stdin, self._popen.stdout, self._popen.stderr):
                try:
                    pipe.close()
                except OSError:
                    pass  # what was to be written to it

    def _write(self):
        try:
            while (line := self._requests.get()) is not None:
                self._popen.stdin.write(line)
                self._popen.stdin.flush()
            self._popen.stdin.close()
        except (OSError, ValueError):
            pass  # it has ended, which the reader finds out

    def _read(self):
        try:
            for line in self._popen.stdout:
                answer = json.loads(line)
                self._answers.put((answer["id"], answer["result"]))
        except (OSError, ValueError, KeyError, TypeError):
            pass
        self._answers.put(None)

    def _listen(self):
        try:
            for line in self._popen.stderr:
                text = line.decode("utf-8", "replace").strip()
                if text:
                    self._words = [text]
        except (OSError, ValueError):
            pass
