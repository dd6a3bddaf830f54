#!/usr/bin/env python3
"""A Windlass worker with nothing but Python's standard library. The protocol is in docs/workers.md.
WINDLASS_TOKEN=… python3 worker.py --server http://127.0.0.1:7117"""
import argparse, json, os, signal, socket, sys, threading, time, urllib.error, urllib.request, uuid

class Stale(Exception): """The lease is no longer ours: the server rejects our reports."""

class Worker:
    def __init__(self, args):
        self.args, self.id, self.job, self.every, self.draining = args, uuid.uuid4().hex, None, 5.0, False

    def post(self, path, **body):
        headers = {"Authorization": "Bearer " + os.environ["WINDLASS_TOKEN"], "Content-Type": "application/json"}
        body, wait = json.dumps({"worker": self.id, **body}).encode(), 0.1
        while True:
            request = urllib.request.Request(self.args.server + "/api/v1/worker/" + path, body, headers)
            try:
                with urllib.request.urlopen(request, timeout=60) as response:
                    return json.loads(response.read() or b"{}")
            except urllib.error.HTTPError as refused:
                if refused.code == 409:
                    raise Stale(path) from None
                if refused.code not in (429, 503):
                    sys.exit("%s: %d %s" % (path, refused.code, refused.read().decode()))
            except OSError:
                pass  # the server is unreachable: retry until it is back
            time.sleep(wait)
            wait = min(wait * 2, 2.0)

    def lease(self, job, *more):
        return {name: job[name] for name in ("run", "job", "lease_epoch", *more)}

    def beat(self):
        job = self.job
        jobs = [self.lease(job, "idempotency_key", "attempt")] if job else []
        response = self.post("heartbeat", jobs=jobs, draining=self.draining)
        for renewed in response["renewed"]:  # after a restart of the server the lease has a new epoch
            job["lease_epoch"] = renewed["lease_epoch"]
        for stopped in response["lost"] + response["cancelled"]:
            job["lost"] = stopped in response["lost"]
            job["stop"].set()
        self.draining = self.draining or response["drain"]

    def live(self):
        while not time.sleep(self.every):
            self.beat()

    def report(self, path, **body):
        while not self.job.get("lost"):
            try:
                return self.post(path, **self.lease(self.job), **body).get("next")
            except Stale:
                self.beat()  # the lease is renewed or lost; a server that has just started may not know yet
                time.sleep(0.2)

    def log(self, text, stream="log"):
        """Stores lines for people: `windlass logs RUN` and the web UI show them."""
        self.report("log", lines=[{"text": str(text), "stream": stream}])

    def do(self, job):
        job["stop"], self.job = threading.Event(), job
        try:
            if "sealed_by" in job: raise ValueError("only `windlass worker` can open secret references")
            return self.report("complete", output=TOOLS[job["tool"]](self, job["input"]))
        except Exception as error:
            return self.report("fail", error={"code": type(error).__name__, "message": str(error)})

    def run(self):
        threading.Thread(target=self.live, daemon=True).start()
        while not self.draining:
            leased = self.post("lease", name=self.args.name, tools=list(TOOLS), slots=1, wait_ms=20000)
            self.every, self.draining = leased["heartbeat_ms"] / 1000, self.draining or leased["drain"]
            job = next(iter(leased["jobs"]), None)
            while job:  # the response contains the pipeline's next task
                job = self.do(job)
            self.job = None

    def drain(self, *_):
        self.draining = True
        if not self.job:
            raise SystemExit  # nothing to finish

def count(worker, task):
    """The tool `count`: counts up to a number and reports its progress."""
    worker.log("counting to %d" % task["to"])
    for number in range(1, task["to"] + 1):
        worker.report("progress", data={"counted": number, "key": worker.job["idempotency_key"]})
        if worker.job["stop"].wait(worker.args.pause):
            raise InterruptedError("stopped at %d" % number)
    return {"counted": task["to"], "by": worker.args.name, "key": worker.job["idempotency_key"]}

TOOLS = {"count": count}

if __name__ == "__main__":
    options = argparse.ArgumentParser()
    options.add_argument("--server", required=True)
    options.add_argument("--name", default=socket.gethostname())
    options.add_argument("--pause", type=float, default=0.5, help="seconds per number")
    worker = Worker(options.parse_args())
    for number in (signal.SIGTERM, signal.SIGINT): signal.signal(number, worker.drain)
    try:
        worker.run()
    finally:
        worker.post("deregister")
