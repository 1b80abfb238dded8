-- Wireshark dissector of the header that NDP and SCDP share (docs/wire-format.md): IPv4 protocol 253.
--
-- Use: tshark -X lua_script:tools/wireshark/ebb.lua -r FILE, or copy this file into Wireshark's folder of personal
-- Lua plugins. A packet of protocol 253 that does not begin as this header does is left alone: the number is for
-- experiments of everybody (RFC 3692).

local HEADER_BYTES = 48
local PROTOCOL = 253

local ebb = Proto("ebb", "Ebb (NDP, SCDP)")

local TYPES = { [0] = "DATA", "SYMBOL", "PULL", "ACK", "NACK", "RESET", "REQUEST", "CODED", "STOP" }
local DATA, SYMBOL, PULL, ACK, NACK, RESET, REQUEST, CODED = 0, 1, 2, 3, 4, 5, 6, 7
local REASONS = {
    "nothing listens on the port",
    "too many sessions",
    "impossible or too large sizes",
    "gave up after silence",
    "aborted",
    "unknown session",
}
local FLAGS = { "syn", "fin", "trimmed", "repair", "multicast", "multi_source", "retransmit", "returned" }

local f = {
    version = ProtoField.uint8("ebb.version", "Version", base.DEC, nil, 0xF0),
    type = ProtoField.uint8("ebb.type", "Type", base.DEC, TYPES, 0x0F),
    flags = ProtoField.uint8("ebb.flags", "Flags", base.HEX),
    level = ProtoField.uint8("ebb.level", "MLFQ level"),
    sender = ProtoField.uint8("ebb.sender", "Sender", base.DEC, nil, 0xF0),
    senders = ProtoField.uint8("ebb.senders", "Senders", base.DEC, nil, 0x0F),
    sport = ProtoField.uint16("ebb.sport", "Source port"),
    dport = ProtoField.uint16("ebb.dport", "Destination port"),
    session = ProtoField.uint32("ebb.session", "Session", base.HEX),
    block = ProtoField.uint32("ebb.block", "Block"),
    symbol = ProtoField.uint24("ebb.symbol", "Symbol or packet"),
    reason = ProtoField.uint24("ebb.reason", "Reason", base.DEC, REASONS),
    priority = ProtoField.uint8("ebb.priority", "Priority"),
    pull = ProtoField.uint32("ebb.pull", "Pull counter or initial window"),
    entropy = ProtoField.uint16("ebb.entropy", "Path entropy", base.HEX),
    checksum = ProtoField.uint16("ebb.checksum", "Header checksum", base.HEX),
    payload_crc = ProtoField.uint32("ebb.payload_crc", "Payload CRC32C", base.HEX),
    object_length = ProtoField.uint64("ebb.object_length", "Object length"),
    symbol_size = ProtoField.uint16("ebb.symbol_size", "Symbol size"),
    block_symbols = ProtoField.uint16("ebb.block_symbols", "Symbols of a block"),
    payload_length = ProtoField.uint16("ebb.payload_length", "Payload length before any trim"),
    multicast_group = ProtoField.uint16("ebb.multicast_group", "Multicast group"),
    payload = ProtoField.bytes("ebb.payload", "Payload"),
}
for bit, name in ipairs(FLAGS) do
    f[name] = ProtoField.bool("ebb.flags." .. name, name:upper():gsub("_", " "), 8, nil, 2 ^ (bit - 1))
end
ebb.fields = f

local wrong_checksum = ProtoExpert.new(
    "ebb.checksum.bad", "The header checksum is wrong", expert.group.CHECKSUM, expert.severity.ERROR)
local was_trimmed = ProtoExpert.new(
    "ebb.was_trimmed", "A switch has cut the payload", expert.group.SEQUENCE, expert.severity.NOTE)
ebb.experts = { wrong_checksum, was_trimmed }

-- RFC 1071 over the header with its own field in it: all ones if it is right.
local function checksum_is_right(buffer)
    local sum = 0
    for at = 0, HEADER_BYTES - 2, 2 do
        sum = sum + buffer(at, 2):uint()
    end
    while sum > 0xFFFF do
        sum = sum % 0x10000 + math.floor(sum / 0x10000)
    end
    return sum == 0xFFFF
end

-- Names of the flags that are set. (Wireshark's Lua may be 5.2, which has no operators for bits.)
local function flag_names(flags)
    local names = {}
    for bit, name in ipairs(FLAGS) do
        if flags:bitfield(8 - bit, 1) == 1 then
            names[#names + 1] = name:upper()
        end
    end
    return table.concat(names, ",")
end

-- What the packet is about, for the column of the list.
local function summary(buffer, kind)
    local symbol = buffer(16, 3):uint()
    if kind == DATA or kind == ACK or kind == NACK then
        return string.format("packet %d", symbol + (kind == DATA and buffer(12, 4):uint() * 2 ^ 24 or 0))
    elseif kind == SYMBOL or kind == CODED then
        return string.format("block %d symbol %d", buffer(12, 4):uint(), symbol)
    elseif kind == PULL then
        return string.format("%d packets in all", buffer(20, 4):uint())
    elseif kind == REQUEST then
        return string.format("block %d", buffer(12, 4):uint())
    elseif kind == RESET then
        return REASONS[symbol] or "unknown reason"
    end
    return ""
end

-- Returns how many bytes are its own; 0: not this header.
function ebb.dissector(buffer, packet, tree)
    if buffer:len() < HEADER_BYTES or buffer(0, 1):bitfield(0, 4) ~= 1 then
        return 0
    end
    local kind, flags = buffer(0, 1):bitfield(4, 4), buffer(1, 1)
    local here = tree:add(ebb, buffer())
    here:add(f.version, buffer(0, 1))
    here:add(f.type, buffer(0, 1))
    local flags_tree = here:add(f.flags, buffer(1, 1))
    for _, name in ipairs(FLAGS) do
        flags_tree:add(f[name], buffer(1, 1))
    end
    here:add(f.level, buffer(2, 1))
    here:add(f.sender, buffer(3, 1))
    here:add(f.senders, buffer(3, 1))
    here:add(f.sport, buffer(4, 2))
    here:add(f.dport, buffer(6, 2))
    here:add(f.session, buffer(8, 4))
    here:add(f.block, buffer(12, 4))
    here:add(f.symbol, buffer(16, 3))
    if kind == RESET then
        here:add(f.reason, buffer(16, 3))
    end
    here:add(f.priority, buffer(19, 1))
    here:add(f.pull, buffer(20, 4))
    here:add(f.entropy, buffer(24, 2))
    local checksum = here:add(f.checksum, buffer(26, 2))
    if not checksum_is_right(buffer) then
        checksum:add_proto_expert_info(wrong_checksum)
    end
    here:add(f.payload_crc, buffer(28, 4))
    here:add(f.object_length, buffer(32, 8))
    here:add(f.symbol_size, buffer(40, 2))
    here:add(f.block_symbols, buffer(42, 2))
    here:add(f.payload_length, buffer(44, 2))
    here:add(f.multicast_group, buffer(46, 2))
    if buffer:len() > HEADER_BYTES then
        here:add(f.payload, buffer(HEADER_BYTES))
    end
    if flags:bitfield(5, 1) == 1 then
        here:add_proto_expert_info(was_trimmed)
    end

    local name, session = TYPES[kind] or "type " .. kind, buffer(8, 4):uint()
    local text = string.format("%s %s, session 0x%08x", name, summary(buffer, kind), session)
    here:append_text(": " .. text)
    packet.cols.protocol = "Ebb"
    packet.cols.info = text .. (flags:uint() ~= 0 and " [" .. flag_names(flags) .. "]" or "")
    return buffer:len()
end

DissectorTable.get("ip.proto"):add(PROTOCOL, ebb)
