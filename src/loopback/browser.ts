/**
 * The system browser.
 *
 * Guarantees no shell between us and the program that opens it, and a process of its own that neither keeps ours alive
 * nor ends with it. Never hands over a character of the URL that a script on the way (`xdg-open` is one) might expand.
 */
import { spawn } from 'node:child_process';

export interface BrowserCommand {
  readonly command: string;
  readonly args: readonly string[];
  /** Its exit status says whether it could open the address; that of rundll32 says nothing. */
  readonly hasStatus: boolean;
}

/** What a shell reads even between double quotes, and the quotes. The escaped form means the same to the server. */
const SPECIAL_TO_SHELLS = /[$`'"\\]/g;

export function browserCommand(url: URL, platform: NodeJS.Platform): BrowserCommand {
  const address = url.href.replace(
    SPECIAL_TO_SHELLS,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  );
  if (platform === 'win32') {
    // Not `start`: that is a command of cmd.exe, which reads & and ^ in the address as its own.
    return { command: 'rundll32', args: ['url.dll,FileProtocolHandler', address], hasStatus: false };
  }
  return { command: platform === 'darwin' ? 'open' : 'xdg-open', args: [address], hasStatus: true };
}

/**
 * Opens the address. Resolves when the program that opens it has ended well, which may be when the user leaves the
 * browser; rejects with an error that has a `code` (`ENOENT`, `EXIT_3`) where there is no browser.
 */
export function openBrowser(url: URL): Promise<void> {
  const { command, args, hasStatus } = browserCommand(url, process.platform);
  return new Promise((resolve, reject) => {
    const browser = spawn(command, [...args], {
      shell: false,
      detached: true,
      stdio: 'ignore',
      windowsHide: true,
    });
    browser.on('error', reject);
    browser.on('exit', (status, signal) => {
      if (!hasStatus || status === 0) resolve();
      else reject(Object.assign(new Error('no browser'), { code: signal ?? `EXIT_${status}` }));
    });
    browser.unref();
  });
}
