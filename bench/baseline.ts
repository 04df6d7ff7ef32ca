/**
 * The measure of all that is compared: a call as one would write it by hand where nothing may go wrong.
 *
 * One Agent, static headers, `body.text()`, `JSON.parse`; of an event stream, the first data line. Knows no session, no
 * refresh, no timeout, no cancellation, no error and no limit. It is fixed: a faster or a slower one would make the figures of
 * one year say nothing about those of another.
 */
import { Agent, request } from 'undici';

export interface Baseline {
  call(params: { name: string; arguments: Record<string, unknown> }): Promise<unknown>;
  close(): Promise<void>;
}

export function openBaseline(url: string, token: string): Baseline {
  const dispatcher = new Agent();
  const headers = {
    accept: 'application/json, text/event-stream',
    'content-type': 'application/json',
    authorization: `Bearer ${token}`,
  };
  let id = 0;
  return {
    async call(params) {
      id += 1;
      const body = JSON.stringify({ jsonrpc: '2.0', id, method: 'tools/call', params });
      const response = await request(url, { method: 'POST', headers, body, dispatcher });
      const text = await response.body.text();
      return JSON.parse(response.headers['content-type'] === 'text/event-stream' ? dataLineOf(text) : text);
    },
    close: () => dispatcher.close(),
  };
}

function dataLineOf(text: string): string {
  const from = text.indexOf('data: ') + 'data: '.length;
  return text.slice(from, text.indexOf('\n', from));
}
