#!/usr/bin/env python3
"""Measures a model larger than memory inside a control group, and judges the numbers.

    sudo bench/streaming.py --folder DIR [--build build/release] [--model 24b:q4_k:zipf1] [--bound 3e9] [--mem 2.7e9] [--repeat 3]
                            [--record bench/streaming-measured.json]

Needs root (a memory control group, version 1 or 2, is made and removed) and DIR with room for the model: 13.7 GB, which are written once
and kept. Takes some minutes, and is worth little while other programs use the drive or the processors. What it prints:

  peak         the most memory that was resident (VmRSS) and charged to the group, looked at every 20 ms, against --mem and --bound, for
               `inkjet run` and for bench_streaming
  decode       bytes per second while tokens are computed one at a time, against the drive's own rate of sequential direct reads, measured
               before every fourth of them: over the time that reads were under way (bar: 85 %), and over all time (no bar: that is what
               computing leaves)
  bytes        read per token, against missed experts times their size (bar: 1.03)
  prompt       that 256 tokens read each expert at most once per chunk, and take at most 1.2 times the time to read those bytes at the drive's
               rate plus the time to compute them, which is measured with the model mapped and warm, outside of the group
  mapped       the same tokens with the model mapped, cold and warm, inside and outside of the group

Everything starts with the model dropped from the page cache. The exit code is 1 when a bar is missed in its median.
"""
import argparse
import glob
import json
import os
import statistics
import subprocess
import sys
import threading
import time

V1, V2 = "/sys/fs/cgroup/memory", "/sys/fs/cgroup"
RESULTS = []


def fail(text):
    sys.exit(f"streaming.py: {text}")


def read_number(path):
    try:
        with open(path, encoding="ascii") as f:
            return int(f.read())
    except (OSError, ValueError):
        return None


class Group:
    """A memory control group with a bound and no swap."""

    def __init__(self, bound):
        self.v2 = os.path.exists(f"{V2}/cgroup.controllers") and "memory" in open(f"{V2}/cgroup.controllers", encoding="ascii").read()
        self.path = f"{V2 if self.v2 else V1}/inkjet-bench-{os.getpid()}"
        try:
            if self.v2:
                with open(f"{V2}/cgroup.subtree_control", "w", encoding="ascii") as f:
                    f.write("+memory")
            os.mkdir(self.path)
            self.write("memory.max" if self.v2 else "memory.limit_in_bytes", int(bound))
            if self.v2 and os.path.exists(f"{self.path}/memory.swap.max"):
                self.write("memory.swap.max", 0)
        except OSError as e:
            fail(f"cannot make a memory control group ({e}): run it as root, where control groups are mounted under /sys/fs/cgroup")

    def write(self, name, value):
        with open(f"{self.path}/{name}", "w", encoding="ascii") as f:
            f.write(str(value))

    def usage(self):
        return read_number(f"{self.path}/{'memory.current' if self.v2 else 'memory.usage_in_bytes'}")

    def kills(self):
        with open(f"{self.path}/{'memory.events' if self.v2 else 'memory.oom_control'}", encoding="ascii") as f:
            return next((int(line.split()[1]) for line in f if line.startswith("oom_kill ")), 0)

    def close(self):
        for _ in range(50):
            try:
                os.rmdir(self.path)
                return
            except OSError:
                time.sleep(0.1)


def drop_from_cache(files):
    for name in files:
        fd = os.open(name, os.O_RDONLY)
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)


def resident(pid):
    """VmRSS and its part that is no file, in bytes."""
    values = {}
    try:
        with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as f:
            for line in f:
                if line.startswith(("VmRSS:", "RssFile:")):
                    values[line.split(":")[0]] = int(line.split()[1]) * 1024
    except OSError:
        return 0, 0
    rss = values.get("VmRSS", 0)
    return rss, rss - values.get("RssFile", 0)


def run(command, group=None):
    """Runs a command, in the group if there is one. Returns its JSON lines and the peaks of what was looked at every 20 ms."""
    enter = (lambda: group.write("cgroup.procs", os.getpid())) if group else None
    kills = group.kills() if group else 0
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=enter)
    peak = {"rss": 0, "anonymous": 0, "group": 0, "samples": 0}
    done = threading.Event()

    def sample():
        while not done.wait(0.02):
            rss, anonymous = resident(child.pid)
            peak["rss"], peak["anonymous"] = max(peak["rss"], rss), max(peak["anonymous"], anonymous)
            peak["group"] = max(peak["group"], group.usage() or 0) if group else 0
            peak["samples"] += 1

    sampler = threading.Thread(target=sample)
    sampler.start()
    out, err = child.communicate()
    done.set()
    sampler.join()
    if child.returncode != 0:
        fail(f"{' '.join(command)} ended with {child.returncode}{', killed for memory' if group and group.kills() > kills else ''}:\n{err}")
    return [json.loads(line) for line in out.splitlines() if line.startswith("{")], peak


def judge(name, value, bar, good, text):
    RESULTS.append((name, good))
    print(f"{'PASS' if good else 'FAIL'}  {name:<28} {value:>10}  bar {bar:<10} {text}")


def stretches(lines, what):
    """Each line of one kind with the drive's rate at its time: measured among the tokens, or right before and after."""
    out = []
    for i, line in enumerate(lines):
        if line["what"] != what:
            continue
        if line["drive_bytes_per_s"]:
            out.append((line, line["drive_bytes_per_s"]))
            continue
        around = [next((x["bytes_per_s"] for x in order if x["what"] == "drive"), None) for order in (lines[:i][::-1], lines[i:])]
        around = [x for x in around if x]
        out.append((line, statistics.mean(around) if around else None))
    return out


def gb(x):
    return f"{x / 1e9:.3f} GB"


def peaks(name, peak, mem, bound):
    judge(f"{name}: resident", gb(peak["rss"]), f"<= {mem / 1e9:.2f} GB", peak["rss"] <= mem,
          f"VmRSS, of this {gb(peak['anonymous'])} no file; {peak['samples']} looks")
    judge(f"{name}: group", gb(peak["group"]), f"<= {bound / 1e9:.2f} GB", peak["group"] <= bound, "charged to the control group, page cache included")


def decode(runs):
    drive, wall, amplified, speeds = [], [], [], []
    for line, rate in [x for r in runs for x in stretches(r["lines"], "decode")]:
        drive.append(line["read_bytes"] / line["read_seconds"] / rate)
        wall.append(line["read_bytes"] / line["seconds"] / rate)
        amplified.append(line["read_bytes"] / line["missed_bytes"])
        speeds.append(line["tokens"] / line["seconds"])
        asked = line["hit"] + line["miss"]
        print(f"      decode: {line['tokens'] / line['seconds']:.2f} tokens/s, hit rate {line['hit'] / asked * 100:.1f} %, "
              f"{line['read_bytes'] / line['tokens'] / 1e6:.1f} MB per token; {line['read_bytes'] / line['read_seconds'] / 1e9:.2f} GB/s while reading, "
              f"{line['read_bytes'] / line['seconds'] / 1e9:.2f} over all, drive {rate / 1e9:.2f} GB/s; "
              f"{line['wait_seconds'] / line['seconds'] * 100:.0f} % of the time waiting; guesses {line['guess_used']} used of {line['guess']}")
    if not drive:
        return
    middle = statistics.median(drive)
    judge("decode: rate while reading", f"{middle * 100:.1f} %", ">= 85 %", middle >= 0.85, f"of the drive; all runs {', '.join(f'{x * 100:.1f}' for x in drive)}")
    print(f"      decode over all time: {statistics.median(wall) * 100:.1f} % of the drive ({', '.join(f'{x * 100:.1f}' for x in wall)})")
    middle = max(amplified)
    judge("decode: bytes read", f"{middle:.4f}", "<= 1.03", middle <= 1.03, "times missed experts x their size (the worst run)")


def prompt(runs):
    ratios = []
    for r, line, rate in [(r, *x) for r in runs for x in stretches(r["lines"], "prompt")]:
        opened = r["opened"]
        chunks = -(-line["tokens"] // opened["max_batch"])
        read, compute = line["read_bytes"] / rate, r["prompt"]
        ratios.append(line["seconds"] / (read + compute))
        print(f"      prompt of {line['tokens']}: {line['seconds']:.2f} s in {chunks} chunks of {opened['max_batch']}; {gb(line['read_bytes'])} read, "
              f"{read:.2f} s at the drive's {rate / 1e9:.2f} GB/s, and {compute:.2f} s to compute; waited {line['wait_seconds']:.2f} s")
        once = line["chunks"] == chunks and line["miss"] + line["hit"] <= chunks * opened["experts"]
        once = once and line["read_bytes"] <= 1.03 * line["missed_bytes"]
        judge("prompt: experts once", f"{line['miss']}", f"<= {chunks * opened['experts']}", once, f"missed; asked for in {line['chunks']} ascending runs")
    if ratios:
        middle = statistics.median(ratios)
        judge("prompt: time", f"{middle:.3f}", "<= 1.2", middle <= 1.2, f"times reading plus computing; all runs {', '.join(f'{x:.3f}' for x in ratios)}")


def mapped_lines(name, lines):
    for line in lines:
        if line["what"] in ("prompt", "decode"):
            print(f"      {name}: {line['what']} {line['tokens']} tokens in {line['seconds']:.2f} s, {line['tokens'] / line['seconds']:.2f} tokens/s")


def record(path, a, all_runs):
    """What scripts/streaming_model.py compares its predictions with."""
    runs = [x for r in all_runs for x in stretches(r["lines"], "decode")]
    opened, compute = all_runs[0]["opened"], statistics.median(r["token"] for r in all_runs)
    asked = sum(x["hit"] + x["miss"] for x, _ in runs)
    new = dict(size=a.model.split(":")[0], format=a.model.split(":")[1], zipf=float(a.model.split("zipf")[1]) if "zipf" in a.model else 0,
               mem=int(a.mem), slots=opened["slots"], hit=round(sum(x["hit"] for x, _ in runs) / asked, 4),
               bytes_per_token=round(sum(x["read_bytes"] for x, _ in runs) / sum(x["tokens"] for x, _ in runs)),
               drive_bytes_per_s=round(statistics.median(r for _, r in runs)), compute_seconds=round(compute, 4),
               tokens_per_s=round(statistics.median(x["tokens"] / x["seconds"] for x, _ in runs), 3))
    try:
        with open(path, encoding="utf-8") as f:
            all_records = json.load(f)
    except FileNotFoundError:
        all_records = []
    key = ("size", "format", "zipf", "mem")
    all_records = [x for x in all_records if any(x[k] != new[k] for k in key)] + [new]
    with open(path, "w", encoding="utf-8") as f:
        f.write("[\n " + ",\n ".join(json.dumps(x) for x in all_records) + "\n]\n")


def make_model(a):
    inkjet = f"{a.build}/inkjet"
    subprocess.run([inkjet, "bench", "--synthetic", a.model, "--keep", a.folder, "--prompt", "1", "--gen", "1", "--repeat", "1"], check=True,
                   stdout=subprocess.DEVNULL)
    files = sorted(glob.glob(f"{a.folder}/*.gguf") + glob.glob(f"{a.folder}/*.safetensors"))
    if not files:
        fail(f"{a.folder} holds no model")
    return files, files[0] if files[0].endswith(".gguf") else a.folder


def one_run(a, files, program, common, group):
    """Computing alone, mapped with everything in memory, cold first; then the model streamed, at once, because the speed of machines drifts."""
    drop_from_cache(files)
    lines, _ = run(program + ["--home", "mapped", "--drive", "0", "--warm", "0", "--repeat", "2"] + common)
    prompts, decodes = ([x for x in lines if x["what"] == what] for what in ("prompt", "decode"))
    for name, i in (("cold", 0), ("warm", 1)):
        print(f"      mapped, {name}: prompt {prompts[i]['seconds']:.2f} s, {decodes[i]['tokens'] / decodes[i]['seconds']:.2f} tokens/s")
    drop_from_cache(files)
    lines, peak = run(program + ["--home", "streamed", "--mem", str(int(a.mem)), "--predict", a.predict, "--warm", str(a.warm), "--repeat", "1"] + common, group)
    opened = lines[0]
    print(f"      streamed: opened in {opened['seconds']:.2f} s, {opened['slots']} of {opened['experts']} experts fit ({opened['slots'] / opened['experts'] * 100:.1f} %), "
          f"dense {gb(opened['dense_bytes'])}, session {gb(opened['session_bytes'])}, step {gb(opened['step_bytes'])}, other {gb(opened['other_bytes'])}; "
          f"{opened['reader']}, {'direct' if opened['direct'] else 'buffered'}, {opened['threads']} threads, {opened['level']}")
    return dict(lines=lines, opened=opened, peak=peak, prompt=prompts[1]["seconds"], token=decodes[1]["seconds"] / decodes[1]["tokens"])


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--folder", required=True)
    p.add_argument("--build", default="build/release")
    p.add_argument("--model", default="24b:q4_k:zipf1")
    p.add_argument("--bound", type=float, default=3e9)
    p.add_argument("--mem", type=float, default=2.7e9)
    p.add_argument("--prompt", type=int, default=256)
    p.add_argument("--gen", type=int, default=32)
    p.add_argument("--warm", type=int, default=64)
    p.add_argument("--repeat", type=int, default=3)
    p.add_argument("--threads", type=int, default=0)
    p.add_argument("--predict", default="auto")
    p.add_argument("--mapped-in-group", action="store_true", help="also the mapped home inside of the group, which may take minutes")
    p.add_argument("--record", metavar="FILE")
    a = p.parse_args()
    files, path = make_model(a)
    size = sum(os.path.getsize(x) for x in files)
    common = ["--threads", str(a.threads), "--prompt", str(a.prompt), "--gen", str(a.gen)]
    program = [f"{a.build}/bench/bench_streaming", path]
    group = Group(a.bound)
    try:
        print(f"{a.model}: {gb(size)} in a group of {gb(a.bound)}, --mem {gb(a.mem)}")
        drop_from_cache(files)
        _, peak = run([f"{a.build}/inkjet", "run", "-m", path, "--mem", str(int(a.mem)), "--ids", "1,2,3,4,5,6,7,8", "-n", "16", "--ignore-eos", "--usage", "none"], group)
        peaks("inkjet run", peak, a.mem, a.bound)

        runs = [one_run(a, files, program, common, group) for _ in range(a.repeat)]
        peaks("bench_streaming", {k: max(r["peak"][k] for r in runs) for k in runs[0]["peak"]}, a.mem, a.bound)
        decode(runs)
        prompt(runs)
        if a.record:
            record(a.record, a, runs)

        if a.mapped_in_group:
            drop_from_cache(files)
            lines, _ = run(program + ["--home", "mapped", "--drive", "0", "--warm", "0", "--prompt", "8", "--gen", "8", "--repeat", "1"], group)
            mapped_lines("mapped, in the group", lines)
    finally:
        group.close()
    missed = [name for name, good in RESULTS if not good]
    print(f"{len(RESULTS) - len(missed)} of {len(RESULTS)} bars met" + (f"; missed: {', '.join(missed)}" if missed else ""))
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
