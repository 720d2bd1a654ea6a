// Every change the console can ask for, by name.
import { send } from './client';
import type { DryRun, NewOperation, NewSubscription } from './pending';
import type { components } from './schema';

type Schemas = components['schemas'];

const part = encodeURIComponent;

export const login = (token: string) => send<{ name: string; role: string }>('POST', '/login', { token });
export const logout = () => send<void>('POST', '/logout');
export const redriveEvent = (id: string, body: { consumerId?: string; reason?: string }) =>
  send<void>('POST', `/events/${part(id)}/redrive`, body);
export const expireEvent = (id: string, reason: string) => send<void>('POST', `/events/${part(id)}/expire`, { reason });
export const discardDelivery = (id: string, consumerId: string, reason: string) =>
  send<void>('POST', `/events/${part(id)}/discard`, { consumerId, reason });
export const pauseConsumer = (id: string, reason: string) =>
  send<void>('POST', `/consumers/${part(id)}/pause`, { reason });
export const resumeConsumer = (id: string) => send<void>('POST', `/consumers/${part(id)}/resume`);
export const skipKey = (id: string, key: string, reason: string) =>
  send<Schemas['DeadKey']>('POST', `/consumers/${part(id)}/keys/skip`, { key, reason });
export const holdKey = (id: string, key: string, reason: string) =>
  send<Schemas['DeadKey']>('POST', `/consumers/${part(id)}/keys/hold`, { key, reason });
export const dryRun = (body: NewOperation) => send<DryRun>('POST', '/operations', { ...body, dryRun: true });
/** The same key with the same body starts one operation, however often it is sent. */
export const startOperation = (body: NewOperation, idempotencyKey: string) =>
  send<{ operationId: string }>('POST', '/operations', { ...body, dryRun: false }, undefined, {
    'idempotency-key': idempotencyKey,
  });
export const changeOperation = (id: string, verb: 'pause' | 'resume' | 'cancel') =>
  send<void>('POST', `/operations/${part(id)}/${verb}`);
export const putSubscription = (topic: string, consumerId: string, body: NewSubscription) =>
  send<void>('PUT', `/subscriptions/${part(topic)}/${part(consumerId)}`, body);
export const deleteSubscription = (topic: string, consumerId: string, waiting?: 'deliver' | 'discard') =>
  send<void>('DELETE', `/subscriptions/${part(topic)}/${part(consumerId)}`, undefined, { waiting });
