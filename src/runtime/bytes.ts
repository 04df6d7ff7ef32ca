/**
 * Text and bytes, with `Buffer` where the runtime has it and with what the web offers where it has not.
 *
 * Guarantees the same result either way: malformed UTF-8 becomes U+FFFD, and a byte order mark stays. Never costs
 * Node a choice per call: the ways are chosen once, when this module is loaded.
 */
type BufferClass = typeof Buffer;

export interface ByteWays {
  utf8Text(bytes: Uint8Array): string;
  utf8Length(text: string): number;
  joined(chunks: readonly Uint8Array[]): Uint8Array;
  /** Of the text's UTF-8. */
  base64Of(text: string): string;
  /** The UTF-8 text that base64url stands for; what is none becomes something, or throws. */
  textOfBase64url(base64url: string): string;
  /** The same characters in memory of their own: a slice keeps the text alive that it was cut from. */
  copyOf(text: string): string;
  /** The text's UTF-8 bytes, one character each: how a header carries them. */
  latin1OfUtf8(text: string): string;
}

export const { utf8Text, utf8Length, joined, base64Of, textOfBase64url, copyOf, latin1OfUtf8 } = byteWays(
  (globalThis as { Buffer?: BufferClass }).Buffer,
);

/** `buffer` is a seam for tests of runtimes that have none. */
export function byteWays(buffer: BufferClass | undefined): ByteWays {
  return buffer === undefined ? waysOfTheWeb() : waysOfNode(buffer);
}

function waysOfNode(buffer: BufferClass): ByteWays {
  return {
    utf8Text: (bytes) => buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('utf8'),
    utf8Length: (text) => buffer.byteLength(text, 'utf8'),
    joined: (chunks) => buffer.concat(chunks),
    base64Of: (text) => buffer.from(text, 'utf8').toString('base64'),
    textOfBase64url: (base64url) => buffer.from(base64url, 'base64url').toString('utf8'),
    copyOf: (text) => buffer.from(text, 'utf8').toString('utf8'),
    latin1OfUtf8: (text) => buffer.from(text, 'utf8').toString('latin1'),
  };
}

function waysOfTheWeb(): ByteWays {
  const encoder = new TextEncoder();
  const decoder = new TextDecoder('utf-8', { ignoreBOM: true });
  const latin1 = (bytes: Uint8Array) => {
    let text = '';
    for (const byte of bytes) text += String.fromCharCode(byte);
    return text;
  };
  return {
    utf8Text: (bytes) => decoder.decode(bytes),
    utf8Length: (text) => encoder.encode(text).byteLength,
    joined(chunks) {
      const whole = new Uint8Array(chunks.reduce((total, { byteLength }) => total + byteLength, 0));
      let at = 0;
      for (const chunk of chunks) {
        whole.set(chunk, at);
        at += chunk.byteLength;
      }
      return whole;
    },
    base64Of: (text) => btoa(latin1(encoder.encode(text))),
    textOfBase64url(base64url) {
      const binary = atob(base64url.replaceAll('-', '+').replaceAll('_', '/'));
      return decoder.decode(Uint8Array.from(binary, (character) => character.charCodeAt(0)));
    },
    copyOf: (text) => decoder.decode(encoder.encode(text)),
    latin1OfUtf8: (text) => latin1(encoder.encode(text)),
  };
}
