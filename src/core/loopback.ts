/** Names and addresses that only reach the machine itself. */

/**
 * Whether a host, without a port, is a loopback address (`127.0.0.0/8`, `::1`) or a name that always resolves to one:
 * `localhost` and, by RFC 6761, everything below it. IPv6 addresses may stand in brackets.
 */
export function isLoopback(host: string): boolean {
  const name = host
    .toLowerCase()
    .replace(/^\[(.*)\]$/, '$1')
    .replace(/\.$/, '')
  if (name === 'localhost' || /^[a-z0-9-]+(?:\.[a-z0-9-]+)*\.localhost$/.test(name)) return true
  if (name === '::1' || /^(?:0{1,4}:){7}0{0,3}1$/.test(name)) return true
  const address = name.replace(/^::ffff:/, '')
  return /^127(?:\.(?:25[0-5]|2[0-4]\d|1?\d?\d)){3}$/.test(address)
}
