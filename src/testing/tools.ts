/**
 * The simulator's tools, and how what a handler returns becomes a result.
 *
 * Guarantees that every handler's outcome is a well-formed JSON-RPC response. Never checks arguments against
 * a schema: tests want to see what was sent.
 */
import type { ToolDefinition } from './types.js';

/** New each time, so that no two servers share an object. */
export function defaultTools(): readonly ToolDefinition[] {
  return [
    {
      name: 'echo',
      description: 'Gives back the text it was given.',
      inputSchema: { type: 'object', properties: { text: { type: 'string' } }, required: ['text'] },
      annotations: { readOnlyHint: true },
      handler: (args) => String(args.text),
    },
    {
      name: 'add',
      description: 'Adds two numbers.',
      inputSchema: {
        type: 'object',
        properties: { a: { type: 'number' }, b: { type: 'number' } },
        required: ['a', 'b'],
      },
      handler: (args) => Number(args.a) + Number(args.b),
    },
    {
      name: 'slow',
      description: 'Answers after so many milliseconds.',
      inputSchema: { type: 'object', properties: { ms: { type: 'number' } }, required: ['ms'] },
      handler: async (args, call) => {
        const ms = Number(args.ms);
        const half = Math.floor(ms / 2);
        call.progress(0);
        await call.wait(half);
        call.progress(50);
        await call.wait(ms - half);
        call.progress(100);
        return `waited ${ms} ms`;
      },
    },
    {
      name: 'fail',
      description: 'Always fails, in the way tools do.',
      inputSchema: { type: 'object' },
      handler: () => ({ isError: true, content: [{ type: 'text', text: 'this tool always fails' }] }),
    },
  ];
}

/** A tool as `tools/list` shows it. */
export function shownTool(tool: ToolDefinition): object {
  const { handler: _, inputSchema, ...shown } = tool;
  return { ...shown, inputSchema: inputSchema ?? { type: 'object' } };
}

/** What a handler returned, as a `CallToolResult`. */
export function toResult(value: unknown, tool: ToolDefinition): { [key: string]: unknown } {
  if (typeof value === 'string') return textResult(value);
  if (value === undefined) return { content: [] };
  // An elicitation's answer has a `content`, too, and it is no list.
  if (isResult(value)) return { ...value };
  const result = textResult(JSON.stringify(value) ?? '');
  const isStructured = tool.outputSchema !== undefined && typeof value === 'object' && value !== null;
  return isStructured ? { ...result, structuredContent: value } : result;
}

/** What a handler threw: a JSON-RPC error where it has a numeric code, else a result that says so. */
export function toFailure(
  thrown: unknown,
):
  | { error: { code: number; message: string; data?: unknown } }
  | { result: { content: unknown[]; isError: true } } {
  const message = thrown instanceof Error ? thrown.message : String(thrown);
  const details = thrown as { code?: unknown; data?: unknown } | null | undefined;
  if (typeof details === 'object' && details !== null && typeof details.code === 'number') {
    const data = details.data === undefined ? {} : { data: details.data };
    return { error: { code: details.code, message, ...data } };
  }
  return { result: { content: [{ type: 'text', text: message }], isError: true } };
}

function isResult(value: unknown): value is { content: unknown[] } {
  return typeof value === 'object' && value !== null && 'content' in value && Array.isArray(value.content);
}

function textResult(text: string): { content: unknown[] } {
  return { content: [{ type: 'text', text }] };
}
