"""Runs: parallel, on disk at once, resumable after any end."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest

from kafka_conformance.judge.verdict import UNREASONED
from kafka_conformance.process.cpu_permits import CpuPermits
from kafka_conformance.runner import results
from kafka_conformance.runner.requests import needed_formats, unsupported
from kafka_conformance.runner.results import Unusable
from kafka_conformance.runner.run import Interrupted, RunPlan, run
from kafka_conformance.testees.connection import CannotRun, ConnectionSpec
from kafka_conformance.testees.known import connect
from kafka_conformance.testees.protocol import Capability, HelloReply
from kafka_corpus.case import Case, Expectation, Recipe
from kafka_corpus.recipes import RECIPES, build_recipe, recipe_format
from kafka_corpus.registry import error_answer, produced
from kafka_corpus.vectors import load_vectors
from kafka_records import Batch

Script = Callable[..., ConnectionSpec]

REPLY = "reply(id=id, batches=[])"
SLOW = "time.sleep(0.02)\n" + REPLY


def cases(count: int) -> list[Case]:
    """That many cases which agree with an answer of no batches."""
    expect = Expectation(verdict="valid")
    return [
        Case(id=f"many.c{at:03}", title="", rules=("X",), area="many", op="decode", input=b"%d" % at, expect=expect)
        for at in range(count)
    ]


def plan(connection: ConnectionSpec, sent: Sequence[Case], folder: Path, **more: object) -> RunPlan:
    """A run with its result in *folder*."""
    return RunPlan(connection=connection, cases=sent, corpus="c", path=folder / "result.ndjson", **more)  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [1, 3])
def test_every_case_is_in_the_result(jobs: int, script: Script, tmp_path: Path) -> None:
    """A run has a header, one line for each case, and a footer that counts and seals them."""
    done = run(plan(script(REPLY), cases(100), tmp_path, jobs=jobs))

    assert sorted(line.case for line in done.lines) == [case.id for case in cases(100)]
    assert done.complete
    assert done.footer is not None
    assert done.footer.counts["agree"] == done.counts()["agree"] == 100
    assert done.header.testee["name"] == "script"
    assert (done.header.cases, done.header.corpus) == (100, "c")
    assert 1 <= done.footer.starts <= jobs


@pytest.mark.parametrize(
    ("recipe", "sent"),
    [
        (Recipe("bomb", {"codec": "gzip", "magic": 2, "mib": 1}), True),
        (Recipe("header_flood", {"codec": "gzip", "mib": 1}), True),
        (Recipe("bomb", {"codec": "gzip", "magic": 1, "mib": 1}), False),
        (Recipe("header_flood", {"codec": "lz4", "mib": 1}), False),
        (Recipe("many_skippable_frames", {"count": 1}), False),
        (Recipe("many_headers", {"count": 1}), True),
        (Recipe("many_records", {"count": 1}), True),
    ],
    ids=str,
)
def test_recipes_are_sent_where_announced(recipe: Recipe, sent: bool) -> None:
    """An input from a recipe is skipped if the codec does not announce its magic and compression."""
    able = HelloReply(protocol=1, name="c", version="1", decode=Capability([2], ["none", "gzip"]))
    assert (unsupported(replace(cases(1)[0], input=recipe), able) is None) == sent


SMALL_RECIPES = (
    *(Recipe(name, {"codec": "gzip", "magic": 1, "mib": 1}) for name in ("bomb", "flood")),
    *(Recipe("bomb", {"codec": codec, "magic": 1, "mib": 1}) for codec in ("snappy", "lz4")),
    Recipe("bomb", {"codec": "zstd", "magic": 2, "mib": 1}),
    *(Recipe("header_flood", {"codec": codec, "mib": 1}) for codec in ("snappy", "zstd")),
    *(Recipe("many_frames", {"codec": codec, "count": 2}) for codec in ("gzip", "zstd")),
    *(Recipe("many_pieces", {"codec": codec, "count": 2}) for codec in ("gzip", "lz4")),
    *(Recipe(name, {"count": 2}) for name in ("many_headers", "many_records", "many_skippable_frames", "uniform")),
    *(Recipe("counted_zeros", {"codec": codec, "mib": 1}) for codec in ("none", "zstd")),
    *(Recipe("nested", {"codec": "gzip", "magic": magic, "depth": 2}) for magic in (0, 1)),
    Recipe("plain_batch", {"size": 200}),
    Recipe("wide_window", {"mib": 1}),
    Recipe("zstd_ends_at", {"at": 500}),
)


@pytest.mark.parametrize("recipe", SMALL_RECIPES, ids=str)
def test_format_of_recipes_is_that_of_the_bytes(recipe: Recipe) -> None:
    """A testee announces the magic and codec of a recipe's bytes to get it."""
    assert list(needed_formats(build_recipe(recipe))) == [recipe_format(recipe)]


def test_format_of_each_recipe_is_tested() -> None:
    """A new recipe fails here until a small one is in the list above."""
    assert {recipe.name for recipe in SMALL_RECIPES} == set(RECIPES)


def test_the_footer_seals_the_file(script: Script, tmp_path: Path) -> None:
    """The footer's hash is over every byte before it, and a change is noticed."""
    done = run(plan(script(REPLY), cases(3), tmp_path))
    path = tmp_path / "result.ndjson"
    before, _, _ = path.read_bytes().rpartition(b'{"complete"')

    assert done.footer is not None
    assert done.footer.sha256 == sha256(before).hexdigest()
    path.write_bytes(path.read_bytes().replace(b'"agree"', b'"lossy"', 1))
    with pytest.raises(Unusable, match="footer"):
        results.read_results(path)


def test_progress_is_reported(script: Script, tmp_path: Path) -> None:
    """Progress goes up to all cases."""
    reported: list[tuple[int, int, int]] = []
    run(plan(script(REPLY), cases(50), tmp_path, progress=lambda *numbers: reported.append(numbers)))

    assert reported[-1] == (50, 50, 0)
    assert [done for done, _, _ in reported] == sorted(done for done, _, _ in reported)


def test_unannounced_cases_are_skipped(script: Script, tmp_path: Path, named: dict[str, Case]) -> None:
    """A testee that announces v2 only, no zstd and no encode skips the other cases."""
    hello = "decode=dict(magics=[2], compressions=['none', 'gzip'])"
    sent = [named[name] for name in ("plain", "v0", "wrapper", "zstd", "gzip", "magic", "write_plain")]
    done = run(plan(script("reply(id=id, skipped='sent')", hello=hello), sent, tmp_path))
    why = {line.case.partition(".")[2]: line.why for line in done.lines}

    assert why == {
        "plain": f"{UNREASONED}: sent",
        "gzip": f"{UNREASONED}: sent",
        "magic": f"{UNREASONED}: sent",
        "v0": "announces no decode of magic 0",
        "wrapper": "announces no decode of magic 1",
        "zstd": "announces no decode of zstd",
        "write_plain": "announces no encode",
    }


@pytest.mark.parametrize(("length", "why"), [(16, None), (17, "announces no decode of magic 0")])
def test_the_magic_of_a_partial_entry_counts(named: dict[str, Case], length: int, why: str | None) -> None:
    """An entry whose magic is among the bytes is one of that format, also where the rest of it is missing."""
    hello = HelloReply(protocol=1, name="a", version="1", decode=Capability(magics=[2]))
    plain, old = named["plain"].input, named["v0"].input
    assert isinstance(plain, bytes)
    assert isinstance(old, bytes)
    found = unsupported(replace(named["plain"], input=plain + old[:length]), hello)

    assert (found.reason if found else None) == why


def test_codecs_get_no_broker_cases(script: Script, tmp_path: Path) -> None:
    """A payload for a broker is left out, unless the testee announces that it can append."""
    draft = produced(b"", error_answer(87))
    payload = replace(cases(1)[0], id="a.payload", op=draft.op, input=draft.input, expect=draft.expect)
    done = run(plan(script(REPLY), [*cases(1), payload], tmp_path))

    assert [line.case for line in done.lines] == [cases(1)[0].id]
    assert done.header.cases == 1


def test_a_testee_that_cannot_run_leaves_no_result(tmp_path: Path) -> None:
    """If no request was sent, no file is written."""
    with pytest.raises(CannotRun):
        run(plan(connect("process:/bin/false"), cases(1), tmp_path))

    assert list(tmp_path.iterdir()) == []


def cut_after(path: Path, lines: int, torn: bytes = b"") -> None:
    """Leave the header and so many lines, and a part of another."""
    kept = path.read_bytes().splitlines(keepends=True)[: lines + 1]
    path.write_bytes(b"".join(kept) + torn)


@pytest.mark.slow
@pytest.mark.parametrize("torn", [b"", b'{"case":"many.c0', b'{"case":"many.c012","outcome":"agree"'])
def test_an_incomplete_result_is_resumed(torn: bytes, script: Script, tmp_path: Path) -> None:
    """A result without a footer is incomplete; a resumed run sends the missing cases, and the case of a torn line."""
    sent = tmp_path / "sent"
    # What the time limit is calibrated with is longer than our inputs.
    count = f"if len(data) < 4: open({str(sent)!r}, 'ab').write(data + b' ')\n" + REPLY
    run(plan(script(count), cases(40), tmp_path))
    cut_after(tmp_path / "result.ndjson", 25, torn)
    sent.unlink()

    incomplete = results.read_results(tmp_path / "result.ndjson")
    done = run(plan(script(count), cases(40), tmp_path, resume=True))

    assert (incomplete.complete, len(incomplete.lines)) == (False, 25)
    assert (done.complete, len(done.lines), len({line.case for line in done.lines})) == (True, 40, 40)
    assert len(sent.read_bytes().split()) == 15


def test_a_complete_result_is_not_run_again(script: Script, tmp_path: Path) -> None:
    """Resuming a complete result gives it back."""
    first = run(plan(script(REPLY), cases(5), tmp_path))

    assert run(plan(script(REPLY), cases(5), tmp_path, resume=True)) == first


def test_resuming_without_a_result_starts_one(script: Script, tmp_path: Path) -> None:
    """Where there is nothing to resume, or only a torn header, the run starts from the beginning."""
    (tmp_path / "result.ndjson").write_bytes(b'{"format":"kaf')

    assert len(run(plan(script(REPLY), cases(5), tmp_path, resume=True)).lines) == 5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("more", "said"),
    [({"corpus": "another"}, "corpus"), ({"only": ("many",)}, "selection"), ({"connection": "other"}, "testee")],
)
def test_another_run_is_not_resumed(more: dict[str, object], said: str, script: Script, tmp_path: Path) -> None:
    """Results of another testee, corpus or selection are not mixed."""
    run(plan(script(REPLY), cases(5), tmp_path))
    cut_after(tmp_path / "result.ndjson", 3)
    again = plan(script(REPLY), cases(5), tmp_path, resume=True)
    if "connection" in more:
        more = {"connection": script(REPLY, hello="version='2'")}

    with pytest.raises(Unusable, match=said):
        run(replace(again, **more))  # type: ignore[arg-type]  # fields of any type


@pytest.mark.parametrize("text", ["", "{}\n", "no json\n", '{"format":"kafkaproof-result"}\n'])
def test_what_is_no_result_is_refused(text: str, tmp_path: Path) -> None:
    """A file of another kind is refused, and so is one that is not there."""
    path = tmp_path / "result.ndjson"
    path.write_text(text)

    with pytest.raises(Unusable):
        results.read_results(path)
    with pytest.raises(Unusable):
        results.read_results(tmp_path / "none")


RUNNER = """
import sys
from pathlib import Path
from kafka_conformance.testees.known import connect
from kafka_conformance.runner.run import RunPlan, run
from kafka_corpus.case import Case, Expectation

expect = Expectation(verdict="valid")
cases = [
    Case(id=f"many.c{at:03}", title="", rules=("X",), area="many", op="decode", input=b"%d" % at, expect=expect)
    for at in range(200)
]
run(RunPlan(connection=connect(sys.argv[1]), cases=cases, corpus="c", path=Path(sys.argv[2]), jobs=2))
"""


def lines_in(path: Path) -> int:
    """How many whole lines a file has up to now."""
    return path.read_bytes().count(b"\n") if path.exists() else 0


@pytest.mark.slow
def test_kill_9_loses_nothing(script: Script, tmp_path: Path, gone: Callable[[int], bool]) -> None:
    """A runner that is killed leaves every case that was judged, its testees end, and another goes on."""
    pids = tmp_path / "pids"
    connection = script(SLOW, setup=f"open({str(pids)!r}, 'a').write(f'{{os.getpid()}}\\n')")
    path = tmp_path / "result.ndjson"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    killed = subprocess.Popen([sys.executable, "-c", textwrap.dedent(RUNNER), connection.name, path], env=environment)
    while lines_in(path) < 40:
        assert killed.poll() is None
        time.sleep(0.01)
    killed.kill()
    killed.wait()
    earned = results.read_results(path)
    started = list(map(int, pids.read_text().split()))

    done = run(plan(replace(connection), cases(200), tmp_path, resume=True, jobs=2))

    assert not earned.complete
    assert 39 <= len(earned.lines) < 200
    assert done.lines[: len(earned.lines)] == earned.lines
    assert (done.complete, len({line.case for line in done.lines})) == (True, 200)
    assert all(map(gone, started))


@pytest.mark.slow
def test_a_run_that_is_stopped_before_its_first_answer_is_incomplete(script: Script, tmp_path: Path) -> None:
    """Skipped cases are on disk at once; without another answer there is no footer, and a resume sends the others."""
    written = Batch(magic=2, base_offset=0, last_offset=0, max_timestamp=0)
    sent = [*cases(3), replace(cases(1)[0], id="many.encode", op="encode", input=written)]
    permits, ended = CpuPermits(1), threading.Event()
    first = plan(script("time.sleep(20)"), sent, tmp_path, permits=permits)

    def stop() -> None:
        while lines_in(first.path) < 2:
            time.sleep(0.01)
        while not ended.wait(0.01):
            first.stop.stop(permits)

    thread = threading.Thread(target=stop)
    thread.start()
    try:
        with pytest.raises(Interrupted, match="1 of 4"):
            run(first)
    finally:
        ended.set()
        thread.join()

    assert not results.read_results(first.path).complete
    done = run(plan(script(REPLY), sent, tmp_path, resume=True))
    assert (done.complete, done.counts()["agree"]) == (True, 3)


@pytest.mark.slow
def test_an_interrupt_keeps_what_was_earned(script: Script, tmp_path: Path) -> None:
    """Ctrl-C stops a run within moments, with what was judged on disk and nothing made up."""
    path = tmp_path / "result.ndjson"

    def interrupt() -> None:
        while lines_in(path) < 20:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(Interrupted, match="of 400 cases"):
        run(plan(script(SLOW), cases(400), tmp_path, jobs=2))
    thread.join()
    earned = results.read_results(path)

    assert not earned.complete
    assert 19 <= len(earned.lines) < 400
    assert earned.counts()["agree"] == len(earned.lines)


def test_recipes_are_heavy(script: Script, tmp_path: Path) -> None:
    """An input made from a recipe is sent alone, and may take longer than the others."""
    recipe = Recipe("zeros", {})
    from kafka_conformance.runner.requests import group_cases

    made = list(group_cases([*cases(3), replace(cases(1)[0], id="many.big", input=recipe)], 32))

    assert [[case.id for case in group] for group in made] == [["many.big"], [case.id for case in cases(3)]]


def test_cases_that_may_loop_are_shared_by_the_workers() -> None:
    """A case that a reader may work on for ever goes alone and first, so that several workers share such cases."""
    from kafka_conformance.process.time_limits import LOOPS, TIMEOUT_GROUPS
    from kafka_conformance.runner.requests import group_cases

    loops = [replace(case, id=f"backwards.record_at_itself[{case.id}]") for case in cases(2)]
    made = list(group_cases([*cases(3), *loops], 32))

    assert set(TIMEOUT_GROUPS) >= LOOPS
    assert [len(group) for group in made] == [1, 1, 3]
    assert [group[0] for group in made[:2]] == loops


def test_a_case_that_claims_sizes_needs_a_fresh_process() -> None:
    """Small cases of the area `resources` go alone, to a fresh process, and have the time of other small ones."""
    from kafka_conformance.runner.requests import group_cases, request_for

    claims = [case for case in load_vectors() if case.area == "resources" and isinstance(case.input, bytes)]
    made = list(group_cases([*claims, *cases(3)], 32))

    assert len(claims) > 50
    assert [len(group) for group in made] == [1] * len(claims) + [3]
    assert {(request_for(case).fresh, request_for(case).heavy) for case in claims} == {(True, False)}
    assert not request_for(cases(1)[0]).fresh


def test_a_case_that_shows_a_use_after_free_needs_a_fresh_process() -> None:
    """kafka-rust crashes over it in each fresh process, but in a used one it may read what it has freed."""
    from kafka_conformance.runner.requests import group_cases, request_for

    freed = [case for case in load_vectors() if "large_message_in_two_wrappers" in case.id]

    assert len(freed) == 4
    assert [len(group) for group in group_cases([*freed, *cases(3)], 32)] == [1] * 4 + [3]
    assert all(request_for(case).fresh for case in freed)


def test_one_claim_is_one_family_whatever_packs_it(named: dict[str, Case]) -> None:
    """Cases that differ in nothing but the codec are a family; else those of a function are, if they claim no sizes."""
    from kafka_conformance.runner.requests import request_for

    def group(id_: str, area: str) -> str:
        return request_for(replace(next(iter(named.values())), id=id_, area=area)).timeout_group

    assert group("gzip.cut[v1-one]", "gzip") == group("gzip.cut[v2-two]", "gzip") == "gzip.cut"
    assert group("v2.count[gzip-10000]", "v2") == "v2.count[10000]"
    assert group("resources.claims[gzip-largest]", "resources") == "resources.claims[largest]"
    assert group("resources.claims[none-largest]", "resources") == "resources.claims[largest]"
    assert group("resources.claims[none-million]", "resources") == "resources.claims[million]"
    assert group("resources.claims[v0-gzip]", "resources") == ""
    assert group("gzip.member_cut_short[no-header]", "gzip") == group("compression.no_payload[gzip]", "compression")
    assert group("resources.many_headers", "resources") == group("resources.flood_of_headers[small]", "resources")
    assert group("resources.flood_of_headers[large]", "resources") == ""


def test_timeout_groups_are_cases_of_the_corpus(named: dict[str, Case]) -> None:
    """Every name in a timeout group is that of a case, or of a function that makes cases."""
    from kafka_conformance.process.time_limits import TIMEOUT_GROUPS

    ids = {case.id for case in load_vectors()}
    known = ids | {id_.partition("[")[0] for id_ in ids}

    assert [name for names in TIMEOUT_GROUPS.values() for name in names if name not in known] == []
