"""The 68 opcodes of pickle protocols 0 to 5, and the widths of the plain ones. A table without behavior."""

from __future__ import annotations

#: byte → name, as ``pickletools`` of CPython 3.8 and later spells it
NAMES: dict[int, str] = {
    # protocol 0
    0x28: "MARK",
    0x2E: "STOP",
    0x30: "POP",
    0x31: "POP_MARK",
    0x32: "DUP",
    0x46: "FLOAT",
    0x49: "INT",
    0x4C: "LONG",
    0x4E: "NONE",
    0x50: "PERSID",
    0x52: "REDUCE",
    0x53: "STRING",
    0x56: "UNICODE",
    0x61: "APPEND",
    0x62: "BUILD",
    0x63: "GLOBAL",
    0x64: "DICT",
    0x67: "GET",
    0x69: "INST",
    0x6C: "LIST",
    0x70: "PUT",
    0x73: "SETITEM",
    0x74: "TUPLE",
    # protocol 1
    0x29: "EMPTY_TUPLE",
    0x47: "BINFLOAT",
    0x4A: "BININT",
    0x4B: "BININT1",
    0x4D: "BININT2",
    0x51: "BINPERSID",
    0x54: "BINSTRING",
    0x55: "SHORT_BINSTRING",
    0x58: "BINUNICODE",
    0x5D: "EMPTY_LIST",
    0x65: "APPENDS",
    0x68: "BINGET",
    0x6A: "LONG_BINGET",
    0x6F: "OBJ",
    0x71: "BINPUT",
    0x72: "LONG_BINPUT",
    0x75: "SETITEMS",
    0x7D: "EMPTY_DICT",
    # protocol 2
    0x80: "PROTO",
    0x81: "NEWOBJ",
    0x82: "EXT1",
    0x83: "EXT2",
    0x84: "EXT4",
    0x85: "TUPLE1",
    0x86: "TUPLE2",
    0x87: "TUPLE3",
    0x88: "NEWTRUE",
    0x89: "NEWFALSE",
    0x8A: "LONG1",
    0x8B: "LONG4",
    # protocol 3
    0x42: "BINBYTES",
    0x43: "SHORT_BINBYTES",
    # protocol 4
    0x8C: "SHORT_BINUNICODE",
    0x8D: "BINUNICODE8",
    0x8E: "BINBYTES8",
    0x8F: "EMPTY_SET",
    0x90: "ADDITEMS",
    0x91: "FROZENSET",
    0x92: "NEWOBJ_EX",
    0x93: "STACK_GLOBAL",
    0x94: "MEMOIZE",
    0x95: "FRAME",
    # protocol 5
    0x96: "BYTEARRAY8",
    0x97: "NEXT_BUFFER",
    0x98: "READONLY_BUFFER",
}
#: name → byte
CODES: dict[str, int] = {name: code for code, name in NAMES.items()}
#: Highest protocol that an unpickler of today takes.
HIGHEST_PROTOCOL = 5

#: opcodes that push one plain value and are as wide as this, in bytes, whatever the value
PLAIN: dict[int, int] = {
    CODES["NONE"]: 1,
    CODES["NEWTRUE"]: 1,
    CODES["NEWFALSE"]: 1,
    CODES["BININT1"]: 2,
    CODES["BININT2"]: 3,
    CODES["BININT"]: 5,
    CODES["BINFLOAT"]: 9,
}
#: opcodes whose value follows a length: opcode → (width of the length in bytes, whether it has a sign)
COUNTED: dict[int, tuple[int, bool]] = {
    CODES["BINSTRING"]: (4, True),
    CODES["SHORT_BINSTRING"]: (1, False),
    CODES["BINUNICODE"]: (4, False),
    CODES["SHORT_BINUNICODE"]: (1, False),
    CODES["BINUNICODE8"]: (8, False),
    CODES["BINBYTES"]: (4, False),
    CODES["SHORT_BINBYTES"]: (1, False),
    CODES["BINBYTES8"]: (8, False),
    CODES["BYTEARRAY8"]: (8, False),
    CODES["LONG1"]: (1, False),
    CODES["LONG4"]: (4, True),
}
#: of these, and of those that are written as a line, what an unpickler makes ``str`` of
TEXTS = frozenset(
    CODES[name]
    for name in (
        *("STRING", "BINSTRING", "SHORT_BINSTRING", "UNICODE"),
        *("BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"),
    )
)
