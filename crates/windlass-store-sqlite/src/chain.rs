//! The chain of commits: every transaction that changes anything writes its number and the hash of the commit before it,
//! as one row of one page. Whatever is lost of the log is then missed.

use windlass_store::backend::checksum;

/// Marks a link; the layout after it never changes without a new store format.
const MAGIC: [u8; 8] = *b"WNDCHAIN";

/// The length of an encoded link.
pub(crate) const LINK_BYTES: usize = 8 + 16 + 4 * 8 + 2 * 32 + 4;

/// One commit in the chain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ChainLink {
    /// The random name of the store.
    pub store: [u8; 16],
    /// The number of the commit, counted from 1; 0 for a store without commits.
    pub sequence: u64,
    /// All commits up to this one were known to be on the disk when this commit began.
    pub synced: u64,
    /// The highest revision that a record was given.
    pub revision: u64,
    /// A digest of the checksums of rows that the commit wrote.
    pub content: u64,
    /// The hash of the commit before.
    pub previous: [u8; 32],
    /// The hash over the hash of the commit before, and the number and the content of this one.
    pub hash: [u8; 32],
}

impl ChainLink {
    /// Creates the link of a new store.
    pub(crate) fn first(store: [u8; 16]) -> ChainLink {
        ChainLink { store, sequence: 0, synced: 0, revision: 0, content: 0, previous: [0; 32], hash: [0; 32] }.hashed()
    }

    /// Creates the link after this one.
    pub(crate) fn next(&self, synced: u64, revision: u64, content: u64) -> ChainLink {
        let sequence = self.sequence + 1;
        ChainLink { sequence, synced, revision, content, previous: self.hash, ..*self }.hashed()
    }

    /// Creates a link behind a number, after a repair: the numbers in between are not used again.
    pub(crate) fn jump(&self, behind: u64, revision: u64) -> ChainLink {
        let (sequence, revision) = (behind + 1, revision.max(self.revision));
        ChainLink { sequence, synced: behind, revision, content: 0, previous: self.hash, ..*self }.hashed()
    }

    fn hashed(self) -> ChainLink {
        ChainLink { hash: self.expected_hash(), ..self }
    }

    fn expected_hash(&self) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.previous).update(&self.store);
        for number in [self.sequence, self.synced, self.revision, self.content] {
            hasher.update(&number.to_le_bytes());
        }
        hasher.finalize().into()
    }

    pub(crate) fn encode(&self) -> [u8; LINK_BYTES] {
        let mut parts: Vec<u8> = Vec::with_capacity(LINK_BYTES);
        parts.extend(MAGIC);
        parts.extend(self.store);
        for number in [self.sequence, self.synced, self.revision, self.content] {
            parts.extend(number.to_le_bytes());
        }
        parts.extend(self.previous);
        parts.extend(self.hash);
        parts.extend(checksum(&[], &[&parts]).to_le_bytes());
        let mut bytes = [0; LINK_BYTES];
        bytes.copy_from_slice(&parts);
        bytes
    }

    /// Decodes a link; `None` if it is damaged.
    pub(crate) fn decode(bytes: &[u8]) -> Option<ChainLink> {
        let (body, sum) = bytes.split_last_chunk::<4>()?;
        if bytes.len() != LINK_BYTES || checksum(&[], &[body]).to_le_bytes() != *sum {
            return None;
        }
        let mut rest = body.strip_prefix(&MAGIC)?;
        let store = take(&mut rest)?;
        let mut number = || take(&mut rest).map(u64::from_le_bytes);
        let (sequence, synced, revision, content) = (number()?, number()?, number()?, number()?);
        let (previous, hash) = (take(&mut rest)?, take(&mut rest)?);
        Some(ChainLink { store, sequence, synced, revision, content, previous, hash })
    }

    /// Finds the link in a page of the database; `None` if it is another page.
    ///
    /// The page is a leaf with one row: a null in place of the row number, and the link at the very end of the page.
    pub(crate) fn from_page(page: &[u8]) -> Option<ChainLink> {
        let is_leaf_with_one_row = page.first() == Some(&LEAF) && page.get(3..5) == Some(&[0, 1]);
        let at = page.len().checked_sub(LINK_BYTES)?;
        let link = is_leaf_with_one_row.then(|| ChainLink::decode(&page[at..])).flatten();
        link.filter(|link| link.expected_hash() == link.hash)
    }
}

/// The first byte of a page that holds rows of a table.
const LEAF: u8 = 13;

/// The page of the chain: the first that the schema creates after its own.
pub(crate) const CHAIN_PAGE: u32 = 2;

/// Takes bytes from the front.
pub(crate) fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (first, left) = rest.split_first_chunk::<N>()?;
    *rest = left;
    Some(*first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_read_as_it_was_written_and_every_flipped_bit_is_found() {
        let first = ChainLink::first([7; 16]);
        let link = first.next(0, 3, 99);
        assert_eq!((link.sequence, link.previous), (1, first.hash));
        let bytes = link.encode();
        assert_eq!(ChainLink::decode(&bytes), Some(link));
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(ChainLink::decode(&flipped), None, "bit {bit}");
        }
    }
}
