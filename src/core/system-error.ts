/** Errors of the operating system, as Node and Bun report them. */

/** Whether the operating system refused something. */
export function isSystemError(error: unknown): error is Error & { readonly code: string } {
  return error instanceof Error && 'code' in error && 'syscall' in error
}

/** The code of an error, such as `ECONNREFUSED` or a TLS library's own; '' if it has none. */
export function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : ''
}

/** Whether it is an error with this code: `ENOENT`, `EACCES`, … */
export function hasCode(error: unknown, code: string): boolean {
  return error instanceof Error && 'code' in error && error.code === code
}
