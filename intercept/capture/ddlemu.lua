-- SPDX-License-Identifier: Apache-2.0
-- Makes fields of the comments that ddlemu writes to the packets of a capture: display filters such as
-- ddlemu.coll == "AllReduce" && ddlemu.seq == 12. Put it into Wireshark's folder of personal Lua plugins
-- (Help, About Wireshark, Folders), or give it with -X lua_script:ddlemu.lua.

local ddlemu = Proto("ddlemu", "ddlemu: what the packet is for")

local texts = {
	{ "coll", "Collective" },
	{ "comm", "Communicator" },
	{ "algo", "Algorithm" },
	{ "proto", "Protocol" },
	{ "kind", "Kind" }, -- data, ack, nak, repeat, lost, setup
	{ "fate", "What happened to the packet" }, -- sent, marked, lost, down, link-full, port-full
}
local numbers = {
	{ "seq", "Sequence number of the collective" },
	{ "channel", "Channel" },
	{ "step", "Step" },
	{ "from", "From rank" },
	{ "to", "To rank" },
	{ "message", "Message of the connection" },
	{ "bytes", "Bytes of the message" },
	{ "job", "Job" },
	{ "delay", "Time on the link and the receive port (ns)" },
	{ "packets", "Packets that it is on the link" },
	{ "hop", "Place of the link on the path" },
	{ "wait", "Time waited for the link (ns)" },
	{ "marked", "ECN marks" },
}
local fields, values, all = {}, {}, {}
for _, f in ipairs(texts) do
	fields[f[1]] = ProtoField.string("ddlemu." .. f[1], f[2])
	table.insert(all, fields[f[1]])
end
for _, f in ipairs(numbers) do
	fields[f[1]] = ProtoField.uint64("ddlemu." .. f[1], f[2])
	values[f[1]] = true
	table.insert(all, fields[f[1]])
end
ddlemu.fields = all

local comment = Field.new("frame.comment")

function ddlemu.dissector(buffer, _, tree)
	local found = comment()
	if not found or not tostring(found):match("^ddlemu") then
		return
	end
	local branch = tree:add(ddlemu, buffer(0, 0))
	for key, value in tostring(found):gmatch("(%w+)=(%S+)") do
		if values[key] then
			branch:add(fields[key], UInt64(tonumber(value)))
		elseif fields[key] then
			branch:add(fields[key], value)
		end
	end
end

register_postdissector(ddlemu)
