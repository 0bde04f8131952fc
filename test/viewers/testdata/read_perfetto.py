# SPDX-License-Identifier: Apache-2.0
"""Reads a trace with Perfetto's own classes and prints as JSON what is in it: argument 1 is the file."""

import json
import sys

from google.protobuf.unknown_fields import UnknownFieldSet
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as pb


def unknown(message):
    """How many fields of a message Perfetto does not know."""
    n = len(UnknownFieldSet(message))
    for field, value in message.ListFields():
        if field.message_type:
            n += sum(unknown(m) for m in ([value] if hasattr(value, "DESCRIPTOR") else value))
    return n


def main():
    trace = pb.Trace()
    with open(sys.argv[1], "rb") as f:
        trace.ParseFromString(f.read())
    tracks, names, sequences, events, clocks = {}, {}, set(), [], {}
    for p in trace.packet:
        if p.trusted_packet_sequence_id not in sequences:
            assert p.sequence_flags == 3, "the first packet of a sequence clears what is known"
            sequences.add(p.trusted_packet_sequence_id)
        for e in p.interned_data.event_names:
            names[p.trusted_packet_sequence_id, e.iid] = e.name
        if p.HasField("track_descriptor"):
            d = p.track_descriptor
            assert not d.parent_uuid or d.parent_uuid in tracks, d
            tracks[d.uuid] = d
        for c in p.clock_snapshot.clocks:
            clocks[c.clock_id] = c.timestamp
        if p.HasField("track_event"):
            assert p.track_event.track_uuid in tracks, p
            events.append((p, names.get((p.trusted_packet_sequence_id, p.track_event.name_iid))))
    events.sort(key=lambda e: e[0].timestamp)  # as Perfetto: in the order of the file at equal times
    depth, arrows, counters, unmatched, slices = {}, {}, 0, 0, []
    for p, name in events:
        e = p.track_event
        kind = e.type
        if kind == pb.TrackEvent.TYPE_SLICE_BEGIN:
            track = tracks[e.track_uuid]
            around = depth.setdefault(e.track_uuid, [])
            slices.append({
                "rank": tracks[track.parent_uuid].name if track.parent_uuid else "", "track": track.name, "name": name,
                "depth": len(around), "begin": p.timestamp,
            })
            around.append(slices[-1])
        elif kind == pb.TrackEvent.TYPE_SLICE_END:
            if depth.get(e.track_uuid):
                depth[e.track_uuid].pop()["end"] = p.timestamp
            else:
                unmatched += 1
        elif kind == pb.TrackEvent.TYPE_COUNTER:
            assert tracks[e.track_uuid].HasField("counter")
            counters += 1
        for flow in list(e.flow_ids) + list(e.terminating_flow_ids):
            arrows.setdefault(flow, []).append((name, tracks[e.track_uuid].name, bool(e.terminating_flow_ids)))
        if kind in (pb.TrackEvent.TYPE_SLICE_BEGIN, pb.TrackEvent.TYPE_INSTANT):
            assert name, p
    json.dump({
        "unknown": sum(unknown(p) for p in trace.packet),
        "unmatched": unmatched + sum(map(len, depth.values())),
        "arrows": len(arrows),
        "wrong_arrows": [a for a in arrows.values() if a[0][0] != "posted" or a[-1][0] != "arrived" or [x[2] for x in a].count(True) != 1 or not a[-1][2] or len(a) < 3],
        "counters": counters,
        "roots": sorted({d.name for d in tracks.values() if not d.parent_uuid}),
        "tracks": sorted({d.name for d in tracks.values()}),
        "names": sorted({name for _, name in events if name}),
        "slices": [s for s in slices if s["track"] == "calls" or s["track"].startswith("phases")],
        "first": events[0][0].timestamp, "last": events[-1][0].timestamp,
        "clock": events[0][0].timestamp_clock_id, "clocks": clocks,
    }, sys.stdout)


main()
