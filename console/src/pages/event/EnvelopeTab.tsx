import type { EventDetail } from '../../api/pending';
import { Copy } from '../../components/Copy';
import { dateTime } from '../../lib/format';

const TIMES = [
  'occurredAt',
  'createdAt',
  'updatedAt',
  'sentAt',
  'lastSentAt',
  'deliverAt',
  'expireAt',
  'statusAt',
] as const;

/** Every field of the envelope by its name on the wire; those names are not translated. */
export function EnvelopeTab({ event }: { event: EventDetail }) {
  const { initiator } = event;
  const fields: [string, string | number | null | undefined][] = [
    ['eventId', event.eventId],
    ['topic', event.topic],
    ['key', event.key],
    ['aggregateType', event.aggregateType],
    ['aggregateId', event.aggregateId],
    ['tenantId', event.tenantId],
    ['storeId', event.storeId],
    ['traceId', event.traceId],
    ['spanId', event.spanId],
    ['parentEventId', event.parentEventId],
    ['initiator.service', initiator.service],
    ['initiator.operation', initiator.operation],
    ['initiator.userId', initiator.userId],
    ['initiator.clientRequestId', initiator.clientRequestId],
    ['payloadType', event.payloadType],
    ['payloadEncoding', event.payloadEncoding],
    ['maxAttempts', event.maxAttempts],
    ['exchange', event.exchange],
    ['routingKey', event.routingKey],
  ];
  return (
    <div className="card">
      <table className="table wrapped envelope">
        <tbody>
          {fields.map(([name, value]) => (
            <tr key={name}>
              <th scope="row" className="mono">
                {name}
              </th>
              <td className="mono">
                {value == null || value === '' ? (
                  <span className="t3">–</span>
                ) : (
                  <div className="quoting">
                    {value}
                    <Copy text={String(value)} className="hover-only" />
                  </div>
                )}
              </td>
            </tr>
          ))}
          {TIMES.map((name) => (
            <tr key={name}>
              <th scope="row" className="mono">
                {name}
              </th>
              <td>{event[name] ? `${dateTime(event[name])} · ${event[name]}` : <span className="t3">–</span>}</td>
            </tr>
          ))}
          {event.metadataText && (
            <tr>
              <th scope="row" className="mono">
                metadata
              </th>
              <td className="mono">
                <div className="quoting">{event.metadataText}</div>
              </td>
            </tr>
          )}
        </tbody>
      </table>
    </div>
  );
}
