//! `windlass schema DIALECT`

use crate::args::{Schema, SchemaOf};
use crate::failure::{Exit, Failure};
use crate::out;

pub fn schema(args: &Schema) -> Result<Exit, Failure> {
    match args.dialect {
        SchemaOf::Zenflow => out::print(windlass_zenflow::schema().trim_end())?,
    }
    Ok(Exit::Good)
}
