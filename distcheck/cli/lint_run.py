"""The work of ``distcheck lint``: check the files, drop suppressed findings, and apply fixes in rounds.

The options are read in :mod:`.lint`, and the results are written in :mod:`.lint_results`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from distcheck import rules
from distcheck.core.checker import Checker
from distcheck.core.configuration import SITE_FILE
from distcheck.core.model import FEW_FILES, Finding, Fix, Report, Rule, Severity, Where, sort_findings
from distcheck.core.rank_evidence import ACCELERATE_SINCE, OF_DOCUMENTS, SCRIPTS, SINCE, TRANSFORMERS_SINCE
from distcheck.rules import Selection

from .lint_inputs import DelayedProgress, LintFiles, LintOptions, bytes_of, covers_repositories, has_changed, say
from .lint_places import in_place, with_cells
from .lint_verdicts import RunMemory, Seen, memory_of

if TYPE_CHECKING:
    from distcheck.checks.source.engine import SourceFile
    from distcheck.checks.source.link import FileFacts
    from distcheck.checks.source.project_texts import ProjectTexts
    from distcheck.core.project_roots import RootFinder

    from .lint_launch_files import LaunchSide

#: Most rounds of fixing: one fix may make room for another; more than a few means that two undo each other.
_MOST_ROUNDS = 10


class LintResult(NamedTuple):
    """The result of one check of all files."""

    report: Report
    seen: Seen
    #: the Python files that matter or can't be read, by path; empty where the result of an earlier run is known
    files: Mapping[str, FileFacts]
    #: None where nothing among the input may be a launch file, or the result of an earlier run is known
    launch: LaunchSide | None
    #: findings that an option, the configuration or a comment keeps back, by why
    silenced: int
    #: errors and warnings that are info because their rule has not earned its level, see :data:`.model.InFolders`
    lowered: int
    known: int
    gone: int
    #: (path, line, what) of suppressions that name no rule
    unknown: tuple[tuple[str, int, str], ...]


def look(
    options: LintOptions, inputs: LintFiles, changed: Mapping[str, bytes], progress: DelayedProgress
) -> LintResult:
    """Check all files, and drop what is not reported.

    :param changed: bytes that replace those of a file
    """
    from distcheck.core.project_roots import RootFinder

    roots = RootFinder(os.path.exists)
    memory = memory_of(options, inputs, changed)
    files: Mapping[str, FileFacts] = {}
    launch: LaunchSide | None = None
    seen = None if memory is None else memory.recall(roots)
    if seen is None:
        from distcheck.checks.source.engine import without_cycle_search

        with without_cycle_search():
            seen, files, launch = _check(options, inputs, changed, progress, roots, memory)
        if memory is not None:
            memory.keep(seen, roots)
    progress.line.clear()
    return _chosen(options, inputs, seen, memory)._replace(files=files, launch=launch)


def _check(
    options: LintOptions,
    inputs: LintFiles,
    changed: Mapping[str, bytes],
    progress: DelayedProgress,
    roots: RootFinder,
    memory: RunMemory | None,
) -> tuple[Seen, Mapping[str, FileFacts], LaunchSide | None]:
    """Read the files and judge their parts."""
    from distcheck.checks.source import engine
    from distcheck.checks.source.program import Program

    from .lint_units import joined, judge_units, partition

    launch: LaunchSide | None = None
    launch_judge = None
    if inputs.launch:
        from . import lint_launch_files

        launch = lint_launch_files.read(options, inputs, changed, progress, memory)
        launch_judge = lint_launch_files.LaunchJudge(options, launch)
    paths = inputs.paths if launch is None else (*inputs.paths, *sorted(launch.scripts))
    read = engine.read(
        _source_files(paths, inputs, changed, roots, memory),
        jobs=options.jobs,
        cache=options.cache,
        progress=progress.show_files,
    )
    progress.show("judging")
    plan = Checker(options.selection, modules=("distcheck.checks.source",)).plan(Program, command="lint", closed=True)
    units = partition(read, launch, roots)
    texts = _texts(options, inputs, changed, roots, memory)
    keys = [None if memory is None else memory.unit_key(unit, read.files) for unit in units]
    verdicts = [None if memory is None else memory.verdict(key, texts) for key in keys]
    missing = [number for number, verdict in enumerate(verdicts) if verdict is None]
    made = judge_units(
        [
            units[number] if memory is None else units[number]._replace(launch_key=memory.launch_key(units[number]))
            for number in missing
        ],
        read.files,
        plan._replace(early=()),
        launch_judge,
        texts,
        jobs=options.jobs,
        progress=lambda done, total: progress.show("judging", done, total),
        kept=None if memory is None else memory.answers,
    )
    for number, verdict in zip(missing, made, strict=True):
        verdicts[number] = verdict
        if memory is not None:
            if texts is not None:
                for question, _ in verdict.searched:
                    texts.answer(question)  # another process may have read the files: this one records what they are
            memory.keep_verdict(keys[number], verdict)
    verdict = joined([one for one in verdicts if one is not None])
    verdict = verdict._replace(
        kept=(*plan.early, *verdict.kept),
        repeatable=verdict.repeatable and (launch is None or launch.is_whole),
    )
    files = {facts.path: facts for facts in read.files}
    lines: dict[str, list[str]] = {}
    unreadable = tuple(
        in_place(finding, files, lines) if launch is None else launch.in_place(in_place(finding, files, lines))
        for finding in (
            *_not_parsed(files, inputs, changed),
            *(() if launch is None else launch.not_read(inputs.named)),
        )
    )
    broken = tuple(path for path, facts in files.items() if facts.problem is not None)
    if launch is None:
        return Seen(verdict, unreadable, broken), files, None
    return Seen(verdict, unreadable, broken, launch.paths, launch.whole, launch.unread), files, launch


def _chosen(options: LintOptions, inputs: LintFiles, seen: Seen, memory: RunMemory | None) -> LintResult:
    """Return the findings that are reported, by the options."""
    takes = options.selection.takes
    verdict = seen.verdict
    found = [
        *verdict.kept,
        *((*_unread(inputs), *seen.unreadable) if takes(rules.DC904) else ()),
        *(verdict.unused if takes(rules.DC905) else ()),
    ]
    found = _with_documents(options, _with_pins(options, _with_present_folders(found)), memory)
    if not (options.given["fix"] or options.given["diff"]):  # each line is fixed, whether it is reported or not
        found = _once_per_script(found)
    known_rules = rules.known()
    lowest = [_at_its_level(item, known_rules, options, inputs) for item in found]
    # of rules that --preview gives their own level; one that is info everywhere is no news
    lowered = sum(
        after.severity < before.severity and known_rules[before.code].in_folders == "many"
        for before, after in zip(found, lowest, strict=True)
    )
    found = lowest
    reported = [item for item in found if not _ignored_there(item, known_rules, options)]
    shown: list[Finding] = []
    hidden: list[Finding] = []
    for item in reported:
        (shown if _is_shown(item, known_rules, options) else hidden).append(item)
    new, known, gone = tuple(shown), 0, 0
    if options.baseline is not None:
        from distcheck.core.baseline import compare

        folder, counts = options.baseline
        broken = set(seen.broken)
        whole = [*(path for path in inputs.paths if path not in broken), *seen.launch_whole]
        compared = compare(sort_findings(shown), counts, folder=folder, checked_paths=whole)
        new, known, gone = compared.new, len(compared.known), compared.gone
    report = Report(
        "lint",
        findings=sort_findings(new),
        hidden=sort_findings(hidden),
        not_checked=verdict.not_checked,
        probes=verdict.probes,
        checked=verdict.checked | {rules.DC904.code, rules.DC905.code},
    )
    silenced = verdict.silenced + len(found) - len(reported)
    return LintResult(report, seen, {}, None, silenced, lowered, known, gone, verdict.unknown)


def _with_present_folders(findings: list[Finding]) -> list[Finding]:
    """The findings, with the folders of an output that are there: no file shows that."""
    if all(finding.code != "DC814" for finding in findings):
        return findings
    from distcheck.checks.launch_files.batch_header import with_present_folder

    return [one for finding in findings if (one := with_present_folder(finding, os.path.isdir)) is not None]


def _once_per_script(findings: Iterable[Finding]) -> list[Finding]:
    """The findings; of those about the old launcher, one for each script is loud, and its repetitions are notes."""
    seen: set[tuple[str, object]] = set()
    found = []
    for finding in sort_findings(findings):
        subject = finding.where.path if finding.code == "DC801" else finding.evidence.get("script")
        if finding.code in ("DC801", "DC207") and subject is not None and finding.severity > Severity.INFO:
            if (finding.code, subject) in seen:
                message = f"{finding.message}; reported before for this script"
                finding = finding._replace(severity=Severity.INFO, message=message)
            seen.add((finding.code, subject))
        found.append(finding)
    return found


def _with_pins(options: LintOptions, findings: list[Finding]) -> list[Finding]:
    """The findings, with the torch, the accelerate, the transformers and the Python that the project pins."""
    pinned = (SINCE, ACCELERATE_SINCE, TRANSFORMERS_SINCE)
    if all(finding.evidence.keys().isdisjoint(pinned) for finding in findings):
        return findings
    from distcheck.core.package_pins import PackagePins, respect_pins

    roots = _roots(options)
    packages = ("torch", "accelerate", "transformers", "python")
    return respect_pins(findings, *(PackagePins(roots, name) for name in packages))


def _with_documents(options: LintOptions, findings: list[Finding], memory: RunMemory | None) -> list[Finding]:
    """The findings, with what the launch lines of documents show; that is kept while the documents do not change."""
    if all(finding.evidence.keys().isdisjoint((*OF_DOCUMENTS, SCRIPTS)) for finding in findings):
        return findings
    key = None if memory is None else memory.documents_key(findings, _roots(options))
    kept = None if memory is None else memory.with_documents(key)
    if kept is not None:
        return kept
    from distcheck.checks.launch_files.documented import Documents, respect_documents

    documents = Documents(_roots(options))
    found = respect_documents(findings, documents)
    if memory is not None:
        memory.keep_documents(key, found, documents.files.answers())
    return found


def _roots(options: LintOptions) -> tuple[str, ...]:
    """The folders that were given, and the current one: nothing above them belongs to the run."""
    given = [path for path in options.given["paths"] if path != "-"]
    return (os.getcwd(), *(path if os.path.isdir(path) else os.path.dirname(path) for path in given))


def _source_files(
    paths: Iterable[str],
    inputs: LintFiles,
    changed: Mapping[str, bytes],
    roots: RootFinder,
    memory: RunMemory | None,
) -> list[SourceFile]:
    from distcheck.checks.source.engine import SourceFile

    found = []
    for path in paths:
        repository = roots.of_file(path).repository
        if memory is None:
            read, digest = partial(bytes_of, path, inputs, changed), b""
        else:
            read, digest = partial(memory.read, path), memory.known_digest(path)
        found.append(SourceFile(path, read, repository, digest, roots.is_packaged(path)))
    return found


def _texts(
    options: LintOptions,
    inputs: LintFiles,
    changed: Mapping[str, bytes],
    roots: RootFinder,
    memory: RunMemory | None,
) -> ProjectTexts | None:
    """Return the texts of all files, or None if only a part of a repository is checked."""
    from distcheck.checks.source.project_texts import ProjectTexts

    if inputs.standard_input or not covers_repositories(options):
        return None
    read = partial(bytes_of, inputs=inputs, changed=changed) if memory is None else memory.read
    return ProjectTexts(
        (roots.of_file(path).repository, path, partial(read, path)) for path in (*inputs.paths, *inputs.launch)
    )


def _unread(inputs: LintFiles) -> list[Finding]:
    """Return DC904 for files of the input that can't be checked."""
    return [
        rules.DC904.found(
            f"can't be checked: {why}",
            where=Where(path=path),
            fix=Fix("name a file or folder that can be read, or remove it with --exclude", where="this-shell"),
        )
        for path, why in inputs.problems
    ]


def _not_parsed(files: Mapping[str, FileFacts], inputs: LintFiles, changed: Mapping[str, bytes]) -> list[Finding]:
    """DC904 for files that are no Python as this interpreter has it; a note for what is no error of the project."""
    broken = {path: facts.problem for path, facts in files.items() if facts.problem is not None}
    if not broken:
        return []
    from distcheck.checks.source.unparsed import classify

    version = sys.version_info[:2]
    found = []
    for path, problem in broken.items():
        why, line, column = problem
        why = with_cells(why, files[path].cells)
        try:
            data = bytes_of(path, inputs, changed)
        except OSError:
            data = b""
        case = classify(path, data, problem, named=not data or path in inputs.named, version=version)
        what = f"{case.what} ({why})" if case.what else why
        remedy = "the other files were checked"
        if case.kind in ("syntax", "newer-python", "python-2"):
            own = (
                "the Python that the file is written for" if case.needs is None else "Python {}.{}".format(*case.needs)
            )
            remedy = f"fix it, or run distcheck with {own}; {remedy}"
            if case.needs is not None:
                remedy = remedy.removeprefix("fix it, or ")
        else:
            remedy = f"exclude it with --exclude if it is not to be reported; {remedy}"
        found.append(
            rules.DC904.found(
                f"Python {version[0]}.{version[1]} can't read it: {what}",
                where=Where(path=path, line=line or None, column=column or None),
                evidence={"python": f"{version[0]}.{version[1]}", "kind": case.kind},
                severity=case.severity,
                fix=Fix(remedy, where="code"),
            )
        )
    return found


def _ignored_there(finding: Finding, known: Mapping[str, Rule], options: LintOptions) -> bool:
    """Whether a per-file ignore is about it."""
    path = finding.where.path
    rule = known.get(finding.code)
    if path is None or rule is None:
        return False
    here = os.getcwd()
    return any(
        globs.match_file(path, here) is not negated and codes.matches(rule)
        for globs, negated, codes in options.per_file
    )


def _at_its_level(finding: Finding, known: Mapping[str, Rule], options: LintOptions, inputs: LintFiles) -> Finding:
    """Return the finding; at info if its rule has not earned its level, and neither the rule nor the file is named."""
    rule = known.get(finding.code)
    if rule is None or rule.in_folders == "own" or finding.where.path in inputs.named or _is_selected(rule, options):
        return finding
    if rule.in_folders in ("many", "warning") and len(inputs.paths) + len(inputs.launch) <= FEW_FILES:
        highest = Severity.ERROR if rule.in_folders == "many" else Severity.WARNING
        return finding._replace(severity=min(finding.severity, highest))
    return finding._replace(severity=Severity.INFO)


def _is_shown(finding: Finding, known: Mapping[str, Rule], options: LintOptions) -> bool:
    """Return whether a finding is shown: info findings only if their rule is selected, or with ``-v``."""
    if finding.severity > Severity.INFO or options.all_info:
        return True
    rule = known.get(finding.code)
    return rule is not None and _is_selected(rule, options)


def _is_selected(rule: Rule, options: LintOptions) -> bool:
    """Return whether an option or the configuration names a rule."""
    return Selection((*options.selection.select, *options.selection.extend_select)).matches(rule)


def fix(
    options: LintOptions, inputs: LintFiles, result: LintResult, changed: dict[str, bytes], progress: DelayedProgress
) -> tuple[LintResult, int]:
    """Apply fixes and check again until no fix is left. Return the result and the number of fixes; write nothing."""
    from distcheck.core.fixes import apply_fixes
    from distcheck.reporters.locations import repository

    place = repository().place
    fixed = 0
    refused: dict[str, str] = {}
    for _ in range(_MOST_ROUNDS):
        fixes = [finding.fix for finding in result.report.findings if _wants(options, finding)]
        others = {} if result.launch is None else dict.fromkeys(result.launch.paths, result.launch.why_it_reads_worse)
        paths = {edit.path for fix in fixes for edit in fix.edits} & {*inputs.paths, *others}
        texts: dict[str, bytes] = {}
        for path in paths - set(refused):
            if path.endswith(".ipynb"):
                refused[path] = "notebooks are not edited"
                continue
            # the file itself, or a folder above it
            linked = os.path.islink(path) or place(os.path.normpath(path)).inside
            if linked and not place(os.path.realpath(path)).inside:
                refused[path] = f"it is a link to {os.path.realpath(path)}, outside of the checkout"
                continue
            try:
                # an edit has only a location: it must apply to the text that was checked
                if has_changed(path, inputs):
                    refused[path] = "it was changed during the check"
                else:
                    texts[path] = changed[path] if path in changed else bytes_of(path, inputs)
            except OSError as error:
                refused[path] = f"it can't be read: {error.strerror}"
        edited = apply_fixes(fixes, texts, others=others)
        refused.update((item.path, item.why) for item in edited.refused)
        if not edited.files:
            break
        changed.update(edited.files)
        fixed += len(edited.done)
        result = look(options, inputs, changed, progress)
    for path, why in refused.items():
        say(options, f"{path} is left as it is: {why}")
    return result, fixed


def _wants(options: LintOptions, finding: Finding) -> bool:
    return bool(finding.fix.edits) and (finding.fix.safe or bool(options.given["unsafe_fixes"]))


def save_cache(options: LintOptions) -> None:
    """Write what is new in the cache, and report a folder that is not used."""
    if options.cache is None:
        return
    given = options.given
    for entry in options.configuration.entries:
        if entry.name == "cache-dir" and entry.origin != SITE_FILE and not given["cache_dir"]:
            say(options, f"{entry.origin}: cache-dir is ignored: a project can not choose it; fix: pass --cache-dir")
    why = options.cache.save()
    if options.cache.unsafe is not None:
        say(options, f"the cache is not used: {why}")
    elif why is not None and (given["cache_dir"] or given["verbose"]):
        say(options, f"the cache can't be written: {why}")
