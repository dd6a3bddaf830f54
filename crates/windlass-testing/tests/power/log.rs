//! The records of the shim: every change of the disk and everything that left the program, in order.

use std::sync::Arc;

/// One call, as the shim writes it.
#[derive(Clone, Debug)]
pub(crate) enum Record {
    /// A descriptor was opened for a file or a directory that existed.
    Opened {
        path: String,
        inode: u64,
    },
    Created {
        path: String,
        inode: u64,
    },
    MadeDirectory {
        path: String,
        inode: u64,
    },
    Written {
        inode: u64,
        offset: u64,
        data: Arc<[u8]>,
    },
    Resized {
        inode: u64,
        size: u64,
    },
    Synced {
        inode: u64,
    },
    Renamed {
        from: String,
        to: String,
    },
    Unlinked {
        path: String,
    },
    Linked {
        from: String,
        to: String,
    },
    /// Bytes on standard output or a socket: the beginning of what one call sent.
    Output {
        text: String,
    },
}

const HEAD_BYTES: usize = 32;

/// Splits a log into its records. Fails on a call that the shim does not understand.
pub(crate) fn parse(log: &[u8]) -> Result<Vec<Record>, String> {
    let mut records = Vec::new();
    let mut rest = log;
    while !rest.is_empty() {
        let (record, left) = parse_one(rest)?;
        records.push(record);
        rest = left;
    }
    Ok(records)
}

fn parse_one(bytes: &[u8]) -> Result<(Record, &[u8]), String> {
    let cut = || "the log of the shim ends within a record".to_owned();
    let (head, rest) = bytes.split_at_checked(HEAD_BYTES).ok_or_else(cut)?;
    let kind = u32::from_le_bytes(array(head, 0));
    let path_bytes = u32::from_le_bytes(array(head, 4)) as usize;
    let [inode, offset, data_bytes] = [8, 16, 24].map(|at| u64::from_le_bytes(array(head, at)));
    let (path, rest) = rest.split_at_checked(path_bytes).ok_or_else(cut)?;
    let (data, rest) = rest.split_at_checked(data_bytes as usize).ok_or_else(cut)?;
    let (path, text) = (String::from_utf8_lossy(path).into_owned(), || String::from_utf8_lossy(data).into_owned());
    let record = match kind {
        1 => Record::Opened { path, inode },
        2 => Record::Created { path, inode },
        3 => Record::MadeDirectory { path, inode },
        4 => Record::Written { inode, offset, data: data.into() },
        5 => Record::Resized { inode, size: offset },
        6 => Record::Synced { inode },
        7 => Record::Renamed { from: path, to: text() },
        8 => Record::Unlinked { path },
        9 => Record::Linked { from: path, to: text() },
        10 => Record::Output { text: text() },
        _ => return Err(format!("the program made a call that the shim cannot record: {path}")),
    };
    Ok((record, rest))
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("a record's head has this many bytes")
}

/// Writes the outputs of a log in the same form.
pub(crate) fn encode_outputs(records: &[Record]) -> Vec<u8> {
    let mut log = Vec::new();
    for record in records {
        if let Record::Output { text } = record {
            log.extend_from_slice(&10u32.to_le_bytes());
            log.extend_from_slice(&[0; 20]);
            log.extend_from_slice(&(text.len() as u64).to_le_bytes());
            log.extend_from_slice(text.as_bytes());
        }
    }
    log
}
