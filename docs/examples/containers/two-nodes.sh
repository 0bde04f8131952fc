#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs two containers of an image as two nodes of one bench: two-nodes.sh IMAGE, such as build/image:latest. It needs
# root, umoci, runc and iproute2. The containers share a folder and a veth, and nothing else: each has namespaces, a
# root folder and a /dev/shm of its own. They run as user 1000 without capabilities.
set -eu
image=$1 work=$(mktemp -d) shared=$(mktemp -d -p /dev/shm)
name=ddlemu-$$-
trap 'ip netns del ${name}0; ip netns del ${name}1; rm -rf "$work" "$shared"' EXIT
chmod 1777 "$shared"

ip netns add ${name}0
ip netns add ${name}1
ip link add eth0 netns ${name}0 type veth peer name eth0 netns ${name}1
for n in 0 1; do
    ip -n $name$n addr add 10.0.0.$((n + 1))/24 dev eth0
    ip -n $name$n link set eth0 up
    ip -n $name$n link set lo up
done

bundle() { # NODE COMMAND, as JSON: the container that is this node
    umoci unpack --image "$image" "$work/$1"
    sed -i -e "/\"args\": \\[/,/\\]/c \"args\": [$2]," \
        -e 's/"terminal": true/"terminal": false/' -e 's/"uid": 0/"uid": 1000/' -e '/"CAP_/d' \
        -e '/"env": \[/a "DDLEMU_DIR=/shared/ddlemu",' \
        -e "/\"mounts\": \\[/a {\"destination\": \"/shared\", \"source\": \"$shared\", \"options\": [\"bind\"]}," \
        -e "s|\"type\": \"network\"|&, \"path\": \"/run/netns/$name$1\"|" "$work/$1/config.json"
}
rows='"-b", "1M", "-e", "16M", "-f", "4"'
bundle 0 '"ddlemu", "bench", "allreduce", "--profile", "ndr400", "--ranks", "2", "--join", "1m", '"$rows"
bundle 1 '"ddlemu", "join", "--node", "1"'
runc run -b "$work/1" ${name}1 &
runc run -b "$work/0" ${name}0
wait $!
