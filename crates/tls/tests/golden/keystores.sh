# Writes keytool.p12 and keytool.jks from self-signed.pem: a key and a trusted certificate, as keytool writes them.
set -eu
cd "$(dirname "$0")"
rm -f keytool.p12 keytool.jks
openssl pkcs12 -export -in self-signed.pem -inkey keys/pkcs8.pem -out in.p12 -passout pass:hunter2 -name key
keytool -importkeystore -srckeystore in.p12 -srcstorepass hunter2 -destkeystore keytool.p12 -deststoretype PKCS12 -deststorepass hunter2 -noprompt
openssl x509 -in self-signed.pem -out in.pem
keytool -importcert -keystore keytool.p12 -storepass hunter2 -alias trusted -file in.pem -noprompt
keytool -importkeystore -srckeystore keytool.p12 -srcstorepass hunter2 -destkeystore keytool.jks -deststoretype JKS -deststorepass hunter2 -noprompt
rm in.p12 in.pem
