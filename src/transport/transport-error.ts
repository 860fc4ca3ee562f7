/** Why an exchange over the network did not come to its end. */

type TransportErrorKind =
  /** The request cannot be sent: its URL or a header is not valid. */
  | 'invalid'
  /** No connection was made: no such name, refused, a certificate that is not trusted. Nothing was sent. */
  | 'unconnected'
  /** The connection ended, or was reset, before the response was whole. */
  | 'cut'
  /** The peer sent something that is not HTTP/1.1, or compressed bytes that cannot be decompressed. */
  | 'malformed'

export class TransportError extends Error {
  override readonly name = 'TransportError'

  /**
   * `code` is the system's or the TLS library's, such as `ECONNREFUSED` or `ERR_TLS_CERT_ALTNAME_INVALID`;
   * `ECONNRESET` also for a peer that closed the connection too early. '' if there is none.
   */
  constructor(
    readonly kind: TransportErrorKind,
    message: string,
    readonly code = '',
  ) {
    super(message)
  }
}
