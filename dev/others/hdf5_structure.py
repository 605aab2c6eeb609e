# SPDX-License-Identifier: Apache-2.0
"""Walks HDF5 files according to the format's specification (version 0 of the superblock) and reports every
field that violates it, including those that readers seldom use: keys and siblings of B-trees, the order of
names, the heap's free list, the ranges of nodes.
"""
import pathlib
import struct
import zlib

import shared

NOWHERE = (1 << 64) - 1
CHUNK_K = 32  # version 0 has no field for it


class File:
    def __init__(self, path):
        self.bytes = path.read_bytes()
        self.taken = []  # (begin, end, what) of everything described so far

    def take(self, at, layout, what):
        """The fields of a structure, and its end."""
        size = struct.calcsize("<" + layout)
        require(at + size <= len(self.bytes), f"{what} exceeds the file")
        return struct.unpack_from("<" + layout, self.bytes, at), at + size

    def claim(self, begin, end, what):
        require(begin % 8 == 0, f"{what} does not begin at a multiple of 8")
        require(end <= len(self.bytes), f"{what} exceeds the file")
        self.taken.append((begin, end, what))


def require(holds, what):
    if not holds:
        raise SystemExit(what)


def superblock(file):
    fields, at = file.take(0, "8sBBBBBBBBHHIQQQQ", "the superblock")
    signature, version, free, group, _, shared, address, length, _, leaf_k, group_k, flags, base, free_at, end, driver = fields
    require(signature == b"\x89HDF\r\n\x1a\n", "the signature")
    require((version, free, group, shared) == (0, 0, 0, 0), "versions of the superblock")
    require((address, length) == (8, 8), "sizes of addresses and lengths")
    require(leaf_k > 0 and group_k > 0 and flags == 0, "ranks of nodes, or flags")
    require((base, free_at, driver) == (0, NOWHERE, NOWHERE), "base, free space or driver")
    require(end == len(file.bytes), f"end of the file: {end}, it has {len(file.bytes)} bytes")
    (name, header, cached, _, tree, heap), at = file.take(at, "QQIIQQ", "the root's entry")
    require(name == 0 and cached == 1, "the root's entry")
    file.claim(0, at, "the superblock")
    return leaf_k, group_k, header, tree, heap


def messages(file, at, what):
    """{type: bytes} of an object header of version 1."""
    (version, _, count, references, size), begin = file.take(at, "BBHII", what)
    begin += 4  # to a multiple of 8
    require(version == 1 and references == 1, f"{what}: version or references")
    file.claim(at, begin + size, what)
    found, here = {}, begin
    for _ in range(count):
        (kind, length, flags, *_), body = file.take(here, "HHB3s", what)
        require(length % 8 == 0 and kind not in found, f"{what}: message {kind}")
        require(flags in (0, 1), f"{what}: flags of message {kind}")
        found[kind] = file.bytes[body:body + length]
        here = body + length
    require(here == begin + size, f"{what}: its messages do not fill it")
    return found


def heap_names(file, at):
    (signature, version, size, free, data), end = file.take(at, "4sB3xQQQ", "the heap")
    require(signature == b"HEAP" and version == 0, "the heap's signature")
    require(free == 1, "the heap's free list is not empty")
    file.claim(at, end, "the heap")
    file.claim(data, data + size, "the heap's data")
    return file.bytes[data:data + size]


def name_at(names, at):
    require(at % 8 == 0 and at < len(names) and b"\0" in names[at:], "a name's place in the heap")
    return names[at:names.index(b"\0", at)].decode()


def tree_node(file, at, kind, key_size, rank, what):
    """Level, siblings, keys (one more than children) and children."""
    (signature, found, level, count, left, right), here = file.take(at, "4sBBHQQ", what)
    require(signature == b"TREE" and found == kind, f"{what}: signature or type")
    require(0 < count <= 2 * rank, f"{what}: {count} children, 1 to {2 * rank} fit")
    end = here + 2 * rank * 8 + (2 * rank + 1) * key_size
    file.claim(at, end, what)
    keys, children = [], []
    for i in range(count + 1):
        keys.append(file.bytes[here:here + key_size])
        here += key_size
        if i < count:
            children.append(struct.unpack_from("<Q", file.bytes, here)[0])
            here += 8
    return level, left, right, keys, children


def group_entries(file, leaf_k, group_k, tree, names):
    level, left, right, keys, children = tree_node(file, tree, 0, 8, group_k, "the group's B-tree")
    require((level, left, right) == (0, NOWHERE, NOWHERE), "the group's B-tree: level or siblings")
    keys = [struct.unpack("<Q", key)[0] for key in keys]
    require(keys[0] == 0 and names[0] == 0, "the group's first key is not the empty name")
    entries = []
    for number, child in enumerate(children):
        (signature, version, _, count), at = file.take(child, "4sBBH", "a symbol node")
        require(signature == b"SNOD" and version == 1, "a symbol node's signature")
        require(0 < count <= 2 * leaf_k, f"a symbol node: {count} entries, 1 to {2 * leaf_k} fit")
        file.claim(child, at + 2 * leaf_k * 40, "a symbol node")
        for _ in range(count):
            (name, header, cached, _, _, _), at = file.take(at, "QQIIQQ", "an entry")
            require(cached == 0, "an entry that caches something")
            entries.append((name_at(names, name), header))
        require(name_at(names, keys[number + 1]) == entries[-1][0], "the key after a symbol node is not its last name")
    found = [name for name, _ in entries]
    require(found == sorted(set(found)), "names that do not ascend")
    end = max(names.rindex(name.encode()) + len(name) + 1 for name in found)
    require((end + 7) // 8 * 8 == len(names), "room in the heap that is neither used nor free")
    return entries


def chunk_nodes(file, root, shape, chunk, size, what):
    """(offset of the first row, stored bytes, address) of every chunk, by its B-tree."""
    rank = len(shape)
    levels, chunks = {}, []
    end_key = ((shape[0] + chunk[0] - 1) // chunk[0] * chunk[0], *shape[1:], size)

    def offsets(key):
        require(len(key) == 8 + 8 * (rank + 1), "a key's size")
        return struct.unpack_from(f"<{rank + 1}Q", key, 8)

    def walk(at, level):
        found, left, right, keys, children = tree_node(file, at, 1, 8 + 8 * (rank + 1), CHUNK_K, what)
        require(level is None or found == level, f"{what}: level")
        levels.setdefault(found, []).append((at, left, right))
        for i, child in enumerate(children):
            stored, mask = struct.unpack_from("<II", keys[i])
            require(mask == 0, f"{what}: a filter is left out")
            if found > 0:
                first, last = walk(child, found - 1)
                require(first == keys[i] and offsets(last) == offsets(keys[i + 1]), f"{what}: keys of a node")
            else:
                chunks.append((offsets(keys[i]), stored, child))
        require(all(offsets(a) < offsets(b) for a, b in zip(keys, keys[1:])), f"{what}: keys do not ascend")
        return keys[0], keys[-1]

    _, last = walk(root, None)
    require(offsets(last) == end_key, f"{what}: the last key is {offsets(last)}, expected {end_key}")
    for nodes in levels.values():
        places = [NOWHERE, *(at for at, _, _ in nodes), NOWHERE]
        for i, (_, left, right) in enumerate(nodes):
            require((left, right) == (places[i], places[i + 2]), f"{what}: siblings")
    return chunks


def dataset(file, name, header):
    """Type, shape and the numbers' bytes, unpacked."""
    what = f"data set {name}"
    found = messages(file, header, what)
    require(set(found) == {1, 3, 5, 8, 11}, f"{what}: its messages")
    version, rank, flags = struct.unpack_from("<BBB", found[1])
    require(version == 1 and flags == 1 and found[1][3:8] == bytes(5), f"{what}: dataspace")
    dims = struct.unpack_from(f"<{2 * rank}Q", found[1], 8)
    shape, most = dims[:rank], dims[rank:]
    require(shape == most and all(dims), f"{what}: shape")
    kind, bits, size, offset, precision = struct.unpack_from("<B3sIHH", found[3])
    require(kind == 0x10 and (offset, precision) == (0, 8 * size), f"{what}: type")
    require(bits in (b"\0\0\0", b"\x08\0\0"), f"{what}: byte order or padding")
    # Version 2, allocated chunk by chunk, written if it is set; it is defined and has the default, no bytes.
    require(found[5] == b"\2\3\2\1\0\0\0\0", f"{what}: fill value")
    version, layout, chunk_rank, tree = struct.unpack_from("<BBBQ", found[8])
    require((version, layout, chunk_rank) == (3, 2, rank + 1), f"{what}: layout")
    chunk = struct.unpack_from(f"<{rank + 1}I", found[8], 11)
    require(chunk[-1] == size and chunk[1:-1] == shape[1:], f"{what}: shape of the chunks")
    filters = filter_ids(found[11], what, size)
    row = size
    for extent in shape[1:]:
        row *= extent
    numbers, full = b"", chunk[0] * row
    for (first, *rest), stored, address in chunk_nodes(file, tree, shape, chunk, size, what):
        require(first * row == len(numbers) and not any(rest), f"{what}: a chunk's offset")
        file.taken.append((address, address + stored, f"{what}: a chunk"))
        unpacked = zlib.decompress(file.bytes[address:address + stored])
        require(len(unpacked) == full, f"{what}: bytes of a chunk")
        if 2 in filters:
            count = len(unpacked) // size
            unpacked = b"".join(bytes(planes) for planes in
                                zip(*(unpacked[i * count:(i + 1) * count] for i in range(size))))
        numbers += unpacked
    total = shape[0] * row
    require(not any(numbers[total:]) and len(numbers) - total < full, f"{what}: what pads the last chunk")
    return (size, bits[0] == 8), shape, numbers[:total]


def filter_ids(message, what, size):
    version, count = struct.unpack_from("<BB6x", message)
    require(version == 1, f"{what}: filters")
    at, found = 8, []
    for _ in range(count):
        number, length, flags, values = struct.unpack_from("<HHHH", message, at)
        name = message[at + 8:at + 8 + length].rstrip(b"\0")
        value, padding = struct.unpack_from("<II", message, at + 8 + length)
        require(flags == 1 and values == 1 and padding == 0, f"{what}: a filter's flags or values")
        require({1: b"deflate", 2: b"shuffle"}.get(number) == name, f"{what}: a filter's name")
        require(value == size if number == 2 else 0 < value <= 9, f"{what}: a filter's value")
        found.append(number)
        at += 8 + length + 8
    require(at == len(message) and found == ([2, 1] if size > 1 else [1]), f"{what}: which filters")
    return found


def check_cover(file):
    """Nothing overlaps, and there is only padding in between."""
    end, before = 0, "the file's beginning"
    for begin, stop, what in sorted(file.taken):
        require(begin >= end, f"{what} overlaps {before}")
        require(not any(file.bytes[end:begin]) and begin - end < 8, f"bytes between {before} and {what} belong to nothing")
        end, before = stop, what
    require(len(file.bytes) - end < 8, "bytes after everything")


def read(path):
    """{name: ((size, is signed), shape, bytes)}"""
    file = File(pathlib.Path(path))
    leaf_k, group_k, header, tree, heap = superblock(file)
    root = messages(file, header, "the root group")
    require(list(root) == [0x11] and struct.unpack("<QQ", root[0x11]) == (tree, heap), "the root group's message")
    names = heap_names(file, heap)
    sets = {name: dataset(file, name, at) for name, at in group_entries(file, leaf_k, group_k, tree, names)}
    check_cover(file)
    return sets


def pattern(count, size):
    return b"".join((i * 7 % 97).to_bytes(size, "little") for i in range(count))


def check_written(path, rows, more):
    sets = read(path)
    require(len(sets) == 3 + more, f"{len(sets)} data sets")
    for name, kind, shape in (("wide", (4, True), (rows, 12288)), ("label", (1, True), (rows,)),
                              ("mask", (2, False), (rows, 3))):
        found_kind, found_shape, numbers = sets[name]
        require(found_kind == kind and found_shape == shape, f"{name}: {found_kind}, {found_shape}")
        period = pattern(97, kind[0])
        require(numbers == (period * (len(numbers) // len(period) + 1))[:len(numbers)], f"{name}: other numbers")
    for i in range(more):
        require(sets[f"n{99 - i}"][:2] == ((8, False), (rows,)), f"n{99 - i}: type or shape")


def written(given):
    for rows, more in ((1, 0), (3, 6), (128, 0), (129, 5), (257, 13)):
        path = given.work / "written.hdf5"
        shared.run(given.build / "tests/format/write_hdf5", path, rows, more)
        check_written(path, rows, more)
