// Does calls of the memory tool, one JSON object a line of standard input, and prints a line
// for each: {"error", "text"}.
//
//	golden.mjs local DIR        by the SDK's own tool, on files below DIR
//	golden.mjs tool PROGRAM...  by a program that speaks as `mneme tool` does, behind the SDK's helper
//
// A line {"file", "text"} makes a file of the memory what it says, and prints nothing.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { ToolError } from '@anthropic-ai/sdk/lib/tools/ToolError';
import { BetaLocalFilesystemMemoryTool, betaMemoryTool } from '@anthropic-ai/sdk/tools/memory/node';

const [kind, ...args] = process.argv.slice(2);
const memory = kind === 'local' ? await local(...args) : tool(...args);
const helper = betaMemoryTool(memory.handlers);

for await (const line of createInterface({ input: process.stdin })) {
  const call = JSON.parse(line);
  if (call.file !== undefined) {
    await memory.write(call.file, call.text);
    continue;
  }
  let answer;
  try {
    answer = { error: false, text: await helper.run(call) };
  } catch (e) {
    answer = { error: true, text: e instanceof ToolError ? e.content : e.message };
  }
  console.log(JSON.stringify(answer));
}
memory.end();

async function local(dir) {
  return {
    handlers: await BetaLocalFilesystemMemoryTool.init(dir),
    write: (file, text) => writeFileSync(join(dir, 'memories', file), text),
    end: () => {},
  };
}

function tool(program, ...args) {
  const child = spawn(program, args, { stdio: ['pipe', 'pipe', 'inherit'] });
  const answers = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  let id = 0;
  const ask = async (input) => {
    child.stdin.write(JSON.stringify({ id: ++id, input }) + '\n');
    const { value, done } = await answers.next();
    if (done) throw new Error('the tool has ended');
    return JSON.parse(value);
  };
  const handler = async (input) => {
    const { content, is_error } = await ask(input);
    if (is_error) throw new ToolError(content);
    return content;
  };
  return {
    handlers: Object.fromEntries(['view', 'create', 'str_replace', 'insert', 'delete', 'rename'].map((name) => [name, handler])),
    write: async (file, text) => {
      const path = '/memories/' + file;
      await ask({ command: 'delete', path });
      const { content, is_error } = await ask({ command: 'create', path, file_text: text });
      if (is_error) throw new Error(content);
    },
    end: async () => {
      child.stdin.end();
      await once(child, 'exit');
    },
  };
}
