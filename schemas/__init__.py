"""What travels and how it is spelled: JSON values, events, Avro records, codecs, names."""
