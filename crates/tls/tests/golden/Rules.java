// Writes rules.txt: what Kafka's SslPrincipalMapper makes of subjects. Each line is the rules, the subject and the
// result, with tabs between them: =NAME, or !rules (not read), !none (no rule), !fails (for every client).
//
//     java -cp kafka-clients-4.3.0.jar:slf4j-api.jar Rules.java > rules.txt

import java.io.IOException;
import org.apache.kafka.common.security.ssl.SslPrincipalMapper;

public class Rules {
    static void print(String rules, String subject) {
        String result;
        try {
            SslPrincipalMapper mapper = SslPrincipalMapper.fromRules(rules);
            try {
                result = "=" + mapper.getName(subject);
            } catch (IOException none) {
                result = "!none";
            } catch (RuntimeException fails) {
                result = "!fails";
            }
        } catch (RuntimeException refused) {
            result = "!rules";
        }
        System.out.println(rules + "\t" + subject + "\t" + result);
    }

    public static void main(String[] args) {
        String duke = "CN=Duke,OU=ServiceUsers,O=Org,C=US";
        String[] rules = {
            "DEFAULT", " DEFAULT ", "DEFAULT,DEFAULT", ",DEFAULT", "DEFAULT,", "DEFAULTS", "default", "", " ", ",", "x", "x,DEFAULT", "DEFAULT x",
            "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/", "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L", "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/U",
            "RULE:^CN=(.*?),OU=Admin.*$/$1/,DEFAULT", "RULE:^CN=(.*?),OU=Admin.*$/$1/", "RULE:CN=(.*?),.*/$1/ , RULE:.*/x/",
            "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L", "RULE:^.*CN=([^,]+).*$/$1@$2/", "RULE:^.*CN=([^,]+).*$/$2@$3/", "RULE:^.*CN=([^,]+).*$/$12/",
            "RULE:^.*CN=([^,]+).*$/$0/", "RULE:^.*CN=([^,]+).*$/$01/", "RULE:^.*CN=([^,]+).*$/a\\$1/", "RULE:^.*CN=([^,]+).*$/a\\/$1/", "RULE:^.*CN=([^,]+).*$/$/",
            "RULE:^.*CN=([^,]+).*$/$x/", "RULE:^.*CN=(?<who>[^,]+).*$/${who}/", "RULE:^.*CN=(?<who>[^,]+).*$/${other}/", "RULE:^CN=Duke.*$/$1/", "RULE:^CN=Duke.*$/$0/",
            "RULE:.*/x/", "RULE:^.*$/x/", "RULE:.*?/x/", "RULE:CN.*|Z/x/", "RULE:C|CN=.*/x/", "RULE:(C)?(X)?N?.*/[$1$2]/", "RULE:(?i)cn=duke.*/x/", "RULE:(?i:cn)=Duke.*/x/",
            "RULE:cn=duke.*/x/", "RULE:CN=\\w+,.*/x/", "RULE:CN=\\D+=.*/x/", "RULE:[^,]+(,[^,]+){3}/$1/", "RULE:[^,]+(,[^,]+){4}/$1/", "RULE:\\QCN=Duke\\E.*/x/",
            "RULE:CN=Duke\\b.*/x/", "RULE:\\ACN=.*\\z/x/", "RULE:CN=.*\\Z/x/", "RULE:[]C]N=.*/x/", "RULE:[^]]+/x/", "RULE:[a-zA-Z=,]*/x/", "RULE:[\\w=,]*/x/",
            "RULE:\\x43\\u004E=.*/x/", "RULE:CN=.*/x/l", "RULE:CN=.*/x/LU", "RULE:CN=.*/x/L,", "RULE:CN=.*/x", "RULE:CN=.*", "RULE:", "RULE:/x/", "RULE://", "RULE:(/x/",
            "RULE:CN=.*/x/ DEFAULT", "RULE:CN=.*/x/,DEFAULT", "RULE:a/b,RULE:c/d/", "RULE:CN=.*//", "RULE:^CN=(.*?),OU=(.*?),O=(.*?),C=(.*?)$/$1.$2.$3.$4/L",
            "RULE:^CN=(.*?),(?:OU=)?(.*?),.*$/$2-$1/", "RULE:CN=.*/\\\\x/", "RULE:^(..)(.)(.*)$/$1$2$3/", "RULE:^(..)(.)(.*)$/$10$20$31/", "RULE:^(..)(.)(.*)$/$4/",
            "RULE:^(..)(.)(.*)$/$44/", "RULE:^(..)(.)(.*)$/$4$1/", "RULE:^(..)(.)(.*)$/$1$4/", "RULE:^(..)(.)(.*)$/$9999999999/", "RULE:D/d/", "RULE:[A-Z]/d/",
            "RULE:([A-Za-z=,])*/d/", "RULE:([A-Za-z=,])+?/d/", "RULE:(|CN=.*)/d/", "RULE:(CN|C)N?=.*/$1/", "RULE:(C|CN)N?=.*/$1/", "RULE:(?:(C)|N|.)*/$1/", "RULE:((.)N)?.*/$2/",
        };
        for (String rule : rules) print(rule, duke);
        String[] subjects = {"", "CN=a", "CN=a,OU=b", "CN=a\\,b,OU=c", "CN=a\\=b\\+c", "1.2.840.113549.1.9.1=#160161,CN=a", "CN=caf\u00e9", "CN=\u212a", "CN=\u00c9,OU=\u0130", "OU=b,CN=a"};
        String[] usual = {"DEFAULT", "RULE:^.*CN=(.*?)(,.*)?$/$1/L", "RULE:^CN=([^,\\\\]+).*$/$1/U", "RULE:CN=(.*)/$1/,DEFAULT", "RULE:.*/x/", "RULE:[^=]*=(.*)/$1/L",
            "RULE:(.*)CN=([^,]*)(.*)/$2$1$3/", "RULE:(?i)cn=(k.*)/$1/", "RULE:^CN=(\\w+)$/$1/", "RULE:.*?/y/U", "RULE:/empty/", "RULE:.{4}/four/"};
        for (String subject : subjects) for (String rule : usual) print(rule, subject);
    }
}
