// Short names for types of the OpenAPI document that several files use.
import type { components } from './schema';

type Schemas = components['schemas'];

export type Counted = Schemas['Counted'];
export type Health = Schemas['Health'];
export type Counts = Schemas['Counts'];
export type SearchHit = Schemas['SearchHit'];
export type SearchHits = Schemas['SearchHits'];
export type TracePage = Schemas['TracePage'];
