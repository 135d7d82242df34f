"""Kubernetes manifests: the pods that a file requests, what their containers get, and the launch lines in them.

It knows the workloads for training: PyTorchJob, TrainJob, MPIJob, JobSet, Volcano and LeaderWorkerSet, Job,
StatefulSet, Pod. It finds the containers of other kinds by their shape. Values from a template, a patch or a ConfigMap
in another file are unknown. ``shell.py`` reads the text after ``bash -c``, and ``pods.py`` checks the pods.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from distcheck.core.patterns import lazy
from distcheck.core.spans import Span
from distcheck.launch.model import LaunchCommand

from .containers import (
    command_of,
    entries,
    environ_of,
    expanded,
    gets_limited_gpus,
    host_network_of,
    known_text,
    resources_of,
    settings_of,
    shared_memory_of,
    shell_text_of,
    word_of,
)
from .fragments import Fragment
from .model import FileSetting, LaunchFile, LaunchSite, LookUp, Pods, Scalar, Word
from .plain_commands import FileContents
from .workloads import NO_WORKLOADS, PodGroup, groups_of, kind_of_object, objects_of, train_job
from .yaml_text import Node, read_yaml

_SHELL_NAME = lazy(r"\.(?:sh|bash|zsh)$")
_SHELL_BANG = lazy(r"#!\s*\S*(?:/|\s)(?:ba|z|da|k)?sh\b")
_TASK_STARTERS = frozenset({"srun", "mpirun", "mpiexec", "orterun", "sbatch", "mpiexec.hydra", "prun"})
_RANK_STARTERS = frozenset({"torchrun", "torch.distributed.launch", "accelerate", "deepspeed"})
_IS_OBJECT = lazy(r"^[ ]*apiVersion[ ]*:", re.MULTILINE)
_HAS_KIND = lazy(r"^[ ]*(?:- )?kind[ ]*:", re.MULTILINE)
_HOLDS_PODS = lazy(r"\b(?:containers?|trainer|entrypoint|data|manifest)[ ]*:")
_OF_TRAINING = lazy(
    r"gpu|gaudi|torch|accelerate|deepspeed|mpirun|horovod|python|TrainJob|MPIJob|NCCL_|GLOO_|MASTER_ADDR|WORLD_SIZE",
    re.IGNORECASE,
)


def is_manifest(text: str) -> bool:
    """Return whether YAML text looks like Kubernetes objects for training. Nothing is parsed."""
    return all(pattern.search(text) for pattern in (_IS_OBJECT, _HAS_KIND, _HOLDS_PODS, _OF_TRAINING))


def read_manifest(path: str, text: str, look_up: LookUp) -> LaunchFile:
    """Return all pods and launch lines of a manifest. Never raises: unreadable parts are problems of the file.

    :param path: the displayed path, relative to the working directory
    :param look_up: for scripts that a shell text sources, and for a kustomization in the same folder
    """
    yaml = read_yaml(Fragment(text, path))
    reader = _ManifestReader(path, look_up)
    objects = [item for document in yaml.documents for item in objects_of(document)]
    for text_of_manifest in [inner for item in objects for inner in _manifests_within(item)]:
        inner_yaml = read_yaml(text_of_manifest.fragment())
        objects.extend(item for document in inner_yaml.documents for item in objects_of(document))
    for item in objects:
        reader.read_workload(item)
    for item in objects:
        if kind_of_object(item) == "ConfigMap":
            reader.read_scripts(item)
    return reader.contents.file(path, "kubernetes")._replace(
        pods=tuple(reader.pods),
        comments=yaml.comments,
        problems=(*yaml.problems, *reader.contents.problems),
        lines=tuple(line.removesuffix("\r") for line in text.split("\n")),
    )


def _manifests_within(node: Node) -> Iterator[Node]:
    """Yield the texts of manifests that a workflow creates (Argo's ``resource.manifest``), each once."""
    waiting, seen = [node], set()
    while waiting:
        inner = waiting.pop()
        if inner.span in seen:  # an alias: the node itself, wherever it is used
            continue
        seen.add(inner.span)
        manifest = inner.table.get("manifest")
        if manifest is not None and manifest.kind == "value" and _IS_OBJECT.search(manifest.decoded):
            yield manifest
        waiting.extend(reversed([*inner.table.values(), *inner.items]))


class _ManifestReader:
    """What was read of a file so far."""

    def __init__(self, path: str, look_up: LookUp) -> None:
        self.path = path
        self.look_up = look_up
        self.pods: list[Pods] = []
        self.contents = FileContents()
        #: by the name of a ConfigMap: the pods that mount it, with their variables
        self._mounted: dict[str, list[tuple[Pods, Mapping[str, FileSetting]]]] = {}
        self._read_before: set[Span] = set()
        self._patched: bool | None = None

    def read_workload(self, item: Node) -> None:
        kind = kind_of_object(item)
        if kind is None or kind in NO_WORKLOADS or kind == "ConfigMap":
            return
        if kind == "TrainJob":
            self._read_train_job(item)
            return
        for group in groups_of(kind, item):
            pod = group.template.get("spec")
            containers = None if pod is None else pod.get("containers")
            if pod is None or containers is None:
                continue
            for container in containers.items:
                if container.kind == "table":
                    self._read_container(group, pod, container)
        if kind == "RayJob":
            self._read_entry_point(item)

    def read_scripts(self, item: Node) -> None:
        """Read the shell scripts of a ConfigMap as the pods of this file that mount it run them."""
        data = item.get("data")
        if data is None:
            return
        mounted = self._mounted.get(known_text(item, "metadata", "name") or "", [])
        pods, environ = mounted[0] if len(mounted) == 1 else (None, {})
        for name, node in data.table.items():
            if node.kind == "value" and (_SHELL_NAME.search(name) or _SHELL_BANG.match(node.decoded)):
                self._read_shell(node.fragment(), environ, pods)

    def _read_container(self, group: PodGroup, pod: Node, container: Node) -> None:
        shared_memory, shared_bytes = shared_memory_of(group.template, pod, container)
        replicas, nodes = group.replicas, group.nodes
        if self._is_patched():
            # a patch in the same folder can add a volume and change every number
            shared_memory = "unknown" if shared_memory == "default" else shared_memory
            replicas, nodes = _unknown(replicas), _unknown(nodes)
        resources = resources_of(container.get("resources"))
        if resources.gpus is None and (group.overruled or not gets_limited_gpus(pod, container)):
            resources = resources._replace(gpus=Scalar(None, container.span, known=False))
        pods = Pods(
            group.kind,
            group.name,
            group.role,
            container.span,
            replicas=replicas,
            nodes=nodes,
            gpus=resources.gpus,
            cpus=resources.cpus,
            memory_bytes=resources.memory_bytes,
            shared_memory="unknown" if group.overruled and shared_memory == "default" else shared_memory,
            shared_memory_bytes=shared_bytes,
            host_network=host_network_of(group.template, pod),
            settings=settings_of(container),
            nproc=group.nproc,
            injected=group.injected,
            container=known_text(container, "name"),
            operator_values=group.operator_values,
            command=command_of(container),
        )
        environ = self._add(group, pods, container)
        for volume in entries(pod.get("volumes")):
            config_map = known_text(volume, "configMap", "name")
            if config_map is not None:
                self._mounted.setdefault(config_map, []).append((pods, environ))

    def _read_train_job(self, item: Node) -> None:
        """Read a TrainJob of Kubeflow: its runtime gives the pods, with this command and these resources."""
        trainer = item.get("spec", "trainer")
        if trainer is None or trainer.kind != "table":
            return
        group = train_job(item, trainer)
        resources = resources_of(trainer.get("resourcesPerNode"))
        pods = Pods(
            group.kind,
            group.name,
            None,
            trainer.span,
            replicas=group.replicas,
            nodes=group.nodes,
            gpus=resources.gpus or Scalar(None, trainer.span, known=False),
            cpus=resources.cpus,
            memory_bytes=resources.memory_bytes,
            settings=settings_of(trainer),
            nproc=group.nproc,
            injected=group.injected,
            command=command_of(trainer),
        )
        self._add(group, pods, trainer)

    def _read_entry_point(self, item: Node) -> None:
        """Read the command of a RayJob. Ray starts the ranks of a plain script, so only launchers count."""
        node = item.get("spec", "entrypoint")
        if node is not None and node.kind == "value":
            sites = self.contents.sites
            before = len(sites)
            self._read_shell(node.fragment(), {}, None)
            sites[before:] = [site for site in sites[before:] if site.command.launcher in _RANK_STARTERS]

    def _add(self, group: PodGroup, pods: Pods, container: Node) -> dict[str, FileSetting]:
        """Add the pods and what their container runs; return the variables of the command."""
        self.pods.append(pods)
        # one template can be used for several roles (an anchor)
        if container.span not in self._read_before:
            self.contents.settings.extend(pods.settings)
        self._read_before.add(container.span)
        environ = environ_of(pods.settings, group.injected, group.variables, container.span)
        self._read_command(container, environ, pods)
        return environ

    def _read_command(self, container: Node, environ: Mapping[str, FileSetting], pods: Pods) -> None:
        """Read the command of a container and its arguments, joined as Kubernetes joins them."""
        command, arguments = container.get("command"), container.get("args")
        if command is not None and command.kind == "value":
            # no list: Kubernetes refuses it, but other programs with this shape treat it as shell text
            self._read_shell(expanded(command.fragment(), environ), environ, pods)
            return
        nodes = [node for part in (command, arguments) for node in entries(part) if node.kind == "value"]
        words = [word_of(node, environ) for node in nodes]
        text = shell_text_of([word.text for word in words], entry_point_known=bool(command and command.items))
        if text is not None:
            self._read_shell(expanded(nodes[text].fragment(), environ), environ, pods)
            return
        if not words:
            return
        span = words[0].span._replace(end_line=words[-1].span.end_line, end_column=words[-1].span.end_column)
        if any(part is not None and part.open_ended for part in (command, arguments)):
            # a template adds more words: any option may be among them
            words.append(Word("${ARGUMENTS}", span._replace(line=span.end_line, column=span.end_column)))
        site = make_site(words, span, environ, pods)
        if site is not None:
            self.contents.sites.append(site)

    def _read_shell(self, fragment: Fragment, environ: Mapping[str, FileSetting], pods: Pods | None) -> None:
        from .shell import read_shell

        self.contents.add(read_shell(fragment, self.look_up, kind="pod", environ=environ, pods=pods))

    def _is_patched(self) -> bool:
        """Return whether a kustomization in the same folder changes the file."""
        if self._patched is None:
            folder = self.path.replace("\\", "/").rpartition("/")[0]
            names = (f"{folder}/{name}" if folder else name for name in ("kustomization.yaml", "kustomization.yml"))
            texts = [data for data in map(self.look_up, names) if data is not None]
            self._patched = any(re.search(rb"(?m)^\s*(?:patch|replicas|components)", data) for data in texts)
        return self._patched


def make_site(
    words: Iterable[Word], span: Span, environ: Mapping[str, FileSetting], pods: Pods | None
) -> LaunchSite | None:
    """Return the launch line of a list of words without a shell, or None if it starts no ranks."""
    from distcheck.launch.command import parse_command

    taken = tuple(words)
    variables = {
        name: f"${{{name}}}" if setting.value is None else setting.value
        for name, setting in environ.items()
        if name.startswith("PET_")
    }
    command = parse_command([word.text for word in taken], variables)
    if not _starts_ranks(command):
        return None
    return LaunchSite(command, taken, span, kind="pod", settings=dict(environ), pods=pods)


def _starts_ranks(command: LaunchCommand) -> bool:
    if command.launcher in _RANK_STARTERS:
        return True
    if _TASK_STARTERS.intersection(command.wrappers):
        return True
    return command.launcher == "python" and command.script is not None


def _unknown(scalar: Scalar | None) -> Scalar | None:
    return None if scalar is None else scalar._replace(value=None, known=False)
