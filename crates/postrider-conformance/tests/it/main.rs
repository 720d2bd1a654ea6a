//! Every store of ours, held to the suite.

// Off until those stores are there.
// mod postgres;
// mod sqlite;

mod memory;
