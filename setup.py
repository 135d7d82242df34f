"""The metadata stands in setup.cfg; here is only what makes an sdist of the same sources the same bytes everywhere."""

import gzip
import io
import os
import tarfile

from setuptools import setup
from setuptools.command.sdist import sdist

#: What times become where SOURCE_DATE_EPOCH (reproducible-builds.org) does not say: the first moment that a zip knows.
EARLIEST = 315532800


class ReproducibleSdist(sdist):
    """An sdist without times, owners and the order of a folder in it."""

    def make_archive(self, *args, **kwargs):
        path = super().make_archive(*args, **kwargs)
        if path.endswith(".tar.gz"):
            pack_again(path, int(os.environ.get("SOURCE_DATE_EPOCH", EARLIEST)))
        return path


def pack_again(path, seconds):
    """Write the archive anew: members by name, all of one time and nobody's."""
    with tarfile.open(path) as archive:
        members = [(member, archive.extractfile(member)) for member in archive.getmembers()]
        content = {member.name: file.read() for member, file in members if file is not None}
    draft = path + ".draft"
    with (
        open(draft, "wb") as raw,
        gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=seconds) as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT) as packed,
    ):
        for member, _ in sorted(members, key=lambda item: item[0].name):
            executable = member.isdir() or member.mode & 0o100
            member.uid = member.gid = 0
            member.uname = member.gname = ""
            member.mtime = seconds
            member.mode = 0o755 if executable else 0o644
            member.pax_headers = {}
            if member.isfile():
                packed.addfile(member, io.BytesIO(content[member.name]))
            else:
                packed.addfile(member)
    os.replace(draft, path)


setup(cmdclass={"sdist": ReproducibleSdist})
